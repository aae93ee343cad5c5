"""The float model inside a quantized one: weights as they are, activations unrounded; it takes no measurement."""

from edge_runtime.author.graph import Graph, clean_graph, parse_graph


def float_twin(graph: Graph) -> Graph:
    """The model without its pairs of QuantizeLinear and DequantizeLinear on activations, to judge what rounding costs.

    A model of quantized operators (QLinearConv and its like) has no such pairs to take out and comes back as it is.
    """
    model = parse_graph(graph)
    made = {node.output[0]: node for node in model.graph.node if node.op_type == "QuantizeLinear"}
    direct = {
        node.output[0]: made[node.input[0]].input[0]
        for node in model.graph.node
        if node.op_type == "DequantizeLinear" and node.input[0] in made
    }
    outputs = {port.name for port in model.graph.output}

    def source(name: str) -> str:
        while name in direct:
            name = direct[name]
        return name

    kept = []
    for node in model.graph.node:
        if node.op_type == "DequantizeLinear" and node.output[0] in direct:
            if node.output[0] in outputs:
                node.op_type = "Identity"
                node.input[:] = [source(node.output[0])]
                kept.append(node)
            continue
        node.input[:] = [source(name) for name in node.input]
        kept.append(node)
    read = {name for node in kept for name in node.input} | outputs
    kept = [node for node in kept if node.op_type != "QuantizeLinear" or node.output[0] in read]
    nodes = [type(node).FromString(node.SerializeToString()) for node in kept]
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    used = {name for node in nodes for name in node.input}
    stored = [tensor for tensor in model.graph.initializer if tensor.name in used]
    copies = [type(tensor).FromString(tensor.SerializeToString()) for tensor in stored]
    del model.graph.initializer[:]
    model.graph.initializer.extend(copies)
    del model.graph.value_info[:]
    fixed = any(port.shape[:1] == (1,) for port in graph.inputs)
    axes = {
        port.name: port.shape.index(next(one for one in port.shape if isinstance(one, str)))
        for port in (*graph.inputs, *graph.outputs)
        if any(isinstance(one, str) for one in port.shape)
    }
    return clean_graph(model.SerializeToString(), subject="the float twin", one_by_one=fixed, batch_axes=axes)
