"""A tiny model in ELMoForManyLangs' format, and its vectors, computed in NumPy float64."""

import copy
import json

import numpy as np
import reference
import torch_writer

WORDS = ["<oov>", "<bos>", "<eos>", "<pad>", "the", "bank", "中国", "x" * 48, "好"]
CHARACTERS = ["<bos>", "<eos>", "<oov>", "<pad>", "<bow>", "<eow>", *"thebankx中国很好", "\u3000"]
SENTENCES = [
    ["the", "bank", "中国"],
    ["很", "x" * 60, "好", "unknown", "?"],
    ["the"],
    ["a" * 50, "中国很好"],
]
P = 6
H = 11
LAYERS = 2
NETWORK = {
    "encoder": {
        "name": "elmo",
        "projection_dim": P,
        "dim": H,
        "n_layers": LAYERS,
        "cell_clip": 0.4,
        "proj_clip": 0.3,
    },
    "token_embedder": {
        "name": "cnn",
        "activation": "relu",
        "filters": [[1, 3], [2, 4], [3, 5]],
        "n_highway": 2,
        "max_characters_per_token": 50,
    },
}


def random_model(word_dim: int, char_dim: int) -> tuple[dict, dict]:
    """The arrays of token_embedder.pkl and encoder.pkl."""
    generator = np.random.default_rng(3)

    def draw(*shape):
        return generator.standard_normal(shape).astype(np.float32) * 0.6

    tokens = {}
    filters = NETWORK["token_embedder"]["filters"]
    n_filters = sum(n for _, n in filters) if char_dim else 0
    if word_dim:
        tokens["word_emb_layer.embedding.weight"] = draw(len(WORDS), word_dim)
    if char_dim:
        tokens["char_emb_layer.embedding.weight"] = draw(len(CHARACTERS), char_dim)
        for k, (width, n) in enumerate(filters):
            tokens[f"convolutions.{k}.weight"] = draw(n, char_dim, width)
            tokens[f"convolutions.{k}.bias"] = draw(n)
        for k in range(2):
            tokens[f"highways._layers.{k}.weight"] = draw(2 * n_filters, n_filters)
            tokens[f"highways._layers.{k}.bias"] = draw(2 * n_filters)
    tokens["projection.weight"] = draw(P, word_dim + n_filters)
    tokens["projection.bias"] = draw(P)
    encoder = {}
    for direction in ("forward", "backward"):
        for k in range(LAYERS):
            name = f"{direction}_layer_{k}"
            encoder[f"{name}.input_linearity.weight"] = draw(4 * H, P)
            encoder[f"{name}.state_linearity.weight"] = draw(4 * H, P)
            encoder[f"{name}.state_linearity.bias"] = draw(4 * H)
            encoder[f"{name}.state_projection.weight"] = draw(P, H)
    return tokens, encoder


def write_model(folder, word_dim=7, char_dim=5, old=False):
    folder.mkdir()
    network = copy.deepcopy(NETWORK)
    network["token_embedder"]["word_dim"] = word_dim
    network["token_embedder"]["char_dim"] = char_dim
    config = {"config_path": "/home/somebody/configs/cnn_x.json"}
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    (folder / "cnn_x.json").write_text(json.dumps(network), encoding="utf-8")
    if word_dim:
        write_dictionary(folder / "word.dic", WORDS)
    if char_dim:
        write_dictionary(folder / "char.dic", CHARACTERS)
    tokens, encoder = random_model(word_dim, char_dim)
    torch_writer.save(tokens, folder / "token_embedder.pkl", old)
    torch_writer.save(encoder, folder / "encoder.pkl", old)
    return tokens, encoder


def write_dictionary(path, items: list[str]) -> None:
    """Write items and ids; an item of white space is stripped, and its tab with it."""
    lines = [f"{item}\t{k}".strip() for k, item in enumerate(items)]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def token_vector(tokens: dict, token: str) -> np.ndarray:
    """The original's vector (P,) of a token."""
    tokens = {name: array.astype(np.float64) for name, array in tokens.items()}
    parts = []
    if "word_emb_layer.embedding.weight" in tokens:
        row = WORDS.index(token if token in WORDS else "<oov>")
        parts.append(tokens["word_emb_layer.embedding.weight"][row])
    if "char_emb_layer.embedding.weight" in tokens:
        inner = [token] if token in ("<bos>", "<eos>") else list(token)
        padding = ["<pad>"] * (48 - len(inner))
        names = ["<eow>", *inner, "<bow>", *padding]
        cnn = [
            (width, tokens[f"convolutions.{k}.weight"].T, tokens[f"convolutions.{k}.bias"])
            for k, (width, _) in enumerate(NETWORK["token_embedder"]["filters"])
        ]
        parameters = reference.Parameters(
            {}, char_embed=tokens["char_emb_layer.embedding.weight"], cnn=cnn
        )
        ids = [CHARACTERS.index(name if name in CHARACTERS else "<oov>") for name in names]
        x = reference.char_cnn(parameters, ids)
        for k in range(2):
            both = tokens[f"highways._layers.{k}.weight"] @ x + tokens[f"highways._layers.{k}.bias"]
            new = reference.relu(both[: len(x)])
            gate = reference.sigmoid(both[len(x) :])
            x = gate * x + (1 - gate) * new  # the gate lets the input through
        parts.append(x)
    return tokens["projection.weight"] @ np.concatenate(parts) + tokens["projection.bias"]


def layer_of(encoder: dict, name: str):
    """The reference's layer. The original's gates: input, forget, candidate, output."""
    return reference.layer_of(
        encoder[f"{name}.input_linearity.weight"].T,
        encoder[f"{name}.state_linearity.weight"].T,
        encoder[f"{name}.state_linearity.bias"],
        encoder[f"{name}.state_projection.weight"].T,
        order="ifjo",
    )


def expected(tokens: dict, encoder: dict, sentence: list[str]) -> np.ndarray:
    """The original's vectors (3, n, 2P) of a single sentence."""
    lstm = {}
    for direction in reference.DIRECTIONS:
        layers = [f"{direction}_layer_{k}" for k in range(LAYERS)]
        lstm[direction] = [layer_of(encoder, layer) for layer in layers]
    parameters = reference.Parameters(
        lstm,
        True,
        NETWORK["encoder"]["cell_clip"],
        NETWORK["encoder"]["proj_clip"],
        vocabulary=[reference.BOS, reference.EOS, *sentence],
    )
    parameters.word_embed = np.array(
        [token_vector(tokens, token[:48]) for token in ["<bos>", "<eos>", *sentence]]
    )
    (vectors,), _ = reference.embed(parameters, [sentence])
    return vectors
