"""The exported model in ONNX Runtime: pip install onnxruntime numpy

python run_onnx.py < sentences.txt          one sentence per line, tokens separated by white space
"""

import sys

import onnxruntime
from model_io import HERE, arrays, lines


def load(threads: int = 1) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    return onnxruntime.InferenceSession(str(HERE / "model.onnx"), options, providers=["CPUExecutionProvider"])


def run(session: onnxruntime.InferenceSession, sentences: list[list[str]], features: list[list[str]] | None = None):
    return session.run(None, arrays(sentences, features))[0]


if __name__ == "__main__":
    for stream in (sys.stdin, sys.stdout):
        stream.reconfigure(encoding="utf-8")
    sentences = [line.split() for line in sys.stdin]
    print("\n".join(lines(sentences, run(load(), sentences))))
