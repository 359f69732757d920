"""The exported model in ONNX Runtime: pip install onnxruntime numpy

python run_onnx.py < lines.txt          see README.md
"""

import onnxruntime
from model_io import HERE, Run, main
from predict import predict


def load(threads: int = 1) -> Run:
    """Load the model, for this number of threads."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    session = onnxruntime.InferenceSession(
        str(HERE / "model.onnx"), options, providers=["CPUExecutionProvider"]
    )
    return lambda inputs: session.run(None, inputs)


if __name__ == "__main__":
    main(load, predict)
