"""Prints what the search finds for the frost and digits examples, on validation data, and the winner's errors on test."""

import shutil
import tempfile
from pathlib import Path

from edge_runtime.author.build import build
from edge_runtime.author.contract import load_contract
from edge_runtime.author.trials import SearchRecord, table

EXAMPLES = Path(__file__).parent.parent / "examples"
GATES = {
    "frost": """
[[gates.accept]]
output = "low"
metric = "mae"
allowed_loss = 0.05
mean_difference = 0.15
max_difference = 2.5
flags_agree = 0.99
""",
    "digits": """
[[gates.accept]]
output = "digit"
metric = "accuracy"
allowed_loss = 0.005
""",
}


def main() -> None:
    """Search twice each: by validation data for the table, then the winner alone by test data for the last line."""
    with tempfile.TemporaryDirectory() as name:
        for example, gates in GATES.items():
            folder = Path(name) / example
            shutil.copytree(EXAMPLES / example, folder)
            contract = folder / "contract.toml"
            plain = contract.read_text()
            found = _searched(contract, f"{plain}\n[gates]\n{gates}")
            accept = load_contract(contract).gates
            if accept is None or found.winner is None:
                raise SystemExit(f"{example}: nothing passed")
            print(f"\n{example}, validation data, emulated: {found.emulated}")
            print("\n".join(table(found, accept.accept[0])))
            print(f"what quantizing one node alone costs, in sigma: {found.node_costs}")
            for trial in found.trials:
                if trial.portability is not None and trial.portability.sums_cut:
                    print(f"{trial.name}: {trial.portability.words}; emulated {trial.portability.emulated:.3g} steps")
            recipe, _, calibrator = found.winner.partition("/")
            lines = [line for line in plain.splitlines() if not line.startswith("validation = ")]
            tested = "\n".join(lines).replace("\ntest = ", "\nvalidation = ")
            only = f'[gates]\nrecipes = ["{recipe}"]\ncalibrators = ["{calibrator}"]\n'
            on_test = _searched(contract, f"{tested}\n{only}{gates}")
            print(f"{found.winner} on test data: {on_test.trials[0].measured}")


def _searched(contract: Path, text: str) -> SearchRecord:
    contract.write_text(text)
    made = build(contract, None, lambda _: None)
    if made.failures or made.record.search is None:
        raise SystemExit("\n".join(made.failures))
    return made.record.search


if __name__ == "__main__":
    main()
