"""Shapes of weights by arithmetic. They are compared with a file's before a network is made, which takes memory."""

GATES = {"gru": 3, "lstm": 4}
Shapes = dict[str, tuple[int, ...]]  # by the name of the weight; only of large ones


def recurrent(name: str, width: int, hidden: int, n_layers: int = 1, cell: str = "gru") -> Shapes:
    """The matrices of one direction of a bidirectional network."""
    gates, inputs = GATES[cell] * hidden, [width] + [2 * hidden] * (n_layers - 1)
    shapes = {f"{name}.weight_ih_l{layer}": (gates, size) for layer, size in enumerate(inputs)}
    return shapes | {f"{name}.weight_hh_l{layer}": (gates, hidden) for layer in range(n_layers)}
