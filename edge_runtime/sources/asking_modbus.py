"""Modbus slaves on one port, asked in rounds; a late answer of a slave never counts as its next one."""

from functools import partial

from edge_runtime.flow.modbus import (
    Response,
    exception_words,
    fence,
    find_rtu,
    find_tcp,
    rtu_question,
    sample,
    tcp_question,
    why_no_rtu,
    why_no_tcp,
)
from edge_runtime.sources.asking import NoAnswer, Wire
from edge_runtime.spec.modbus import Modbus, ModbusRead

_SHORTEST_GAP_S = 0.00175
"""Between two frames on the bus above 19200 baud, else 3.5 characters of 11 bits ("MODBUS over Serial Line" 2.5.1.1)."""
_GAP_BITS = 38.5


class RegisterQuestions:
    """One round asks each read in turn; it is a sample once all of them were answered, and ends with the first that was not.

    Over TCP each answer names its question. On a serial line it does not: so before a slave that owes an answer is asked
    again, it is asked for another number of registers, whose answer cannot be the one it owes.
    """

    def __init__(self, modbus: Modbus, baud: int) -> None:
        self.every_s = modbus.every_s
        self._reads = modbus.read
        self._is_tcp = modbus.mode == "tcp"
        self._timeout_ns = round(modbus.timeout_s * 1e9)
        self._gap_s = 0.0 if self._is_tcp else max(_SHORTEST_GAP_S, _GAP_BITS / baud)
        self._transaction = 0
        self._owed: dict[int, ModbusRead] = {}

    def ask(self, wire: Wire) -> bytes | NoAnswer:
        """One round: the frame that `flow.modbus.sample` makes of it, or why there is none. Raises LinkLost."""
        for read in list(self._owed.values()):
            settled = self._ask(wire, fence(read, self._reads))
            if isinstance(settled, NoAnswer):
                return settled
            del self._owed[read.slave]
        answers = []
        for read in self._reads:
            got = self._ask(wire, read)
            # A refusal may be a late one too, and then the answer to this question is still to come.
            if not self._is_tcp and (isinstance(got, NoAnswer) or got.exception):
                self._owed[read.slave] = read
            if isinstance(got, NoAnswer):
                return got
            if got.exception:
                return NoAnswer("exception", exception_words(read, got.exception))
            answers.append((read, got.data))
        return sample(answers)

    def _ask(self, wire: Wire, read: ModbusRead) -> Response | NoAnswer:
        if self._is_tcp:
            self._transaction = self._transaction % 0xFFFF + 1
            number = self._transaction
            question, find = tcp_question(read, number), partial(find_tcp, read=read, transaction=number)
        else:
            wire.rest(self._gap_s)
            question, find = rtu_question(read), partial(find_rtu, read=read)
        got = wire.ask(question, find, self._timeout_ns)
        if got is not None:
            return got
        why = why_no_tcp(wire.heard, read, number) if self._is_tcp else why_no_rtu(wire.heard, read)
        return NoAnswer(*why)
