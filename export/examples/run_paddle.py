"""The exported model in Paddle Inference: pip install paddlepaddle numpy

python run_paddle.py < sentences.txt          one sentence per line, tokens separated by white space
"""

import ctypes
import platform
import sys

import paddle
from model_io import HERE, arrays, lines
from paddle import inference

if platform.libc_ver()[0] == "glibc":  # keep freed memory for the next batch, which saves a third of the time
    mallopt = ctypes.CDLL(None).mallopt
    mallopt(-1, 2**31 - 1)  # M_TRIM_THRESHOLD
    mallopt(-4, 0)  # M_MMAP_MAX


def load(threads: int = 1) -> inference.Predictor:
    (graph,) = (path for path in (HERE / "model.json", HERE / "model.pdmodel") if path.exists())
    if graph.suffix == ".json" and paddle.version.major == "2":
        sys.exit(f"error: model.json needs Paddle 3, this is {paddle.__version__}. Export the model with this version.")
    config = inference.Config(str(graph), str(HERE / "model.pdiparams"))
    config.disable_mkldnn()  # with it, a tiny ELMo raised an exception in Paddle 3.3
    config.set_cpu_math_library_num_threads(threads)
    config.disable_glog_info()
    return inference.create_predictor(config)


def run(predictor: inference.Predictor, sentences: list[list[str]], features: list[list[str]] | None = None):
    for name, array in arrays(sentences, features).items():
        predictor.get_input_handle(name).copy_from_cpu(array)
    predictor.run()
    return predictor.get_output_handle(predictor.get_output_names()[0]).copy_to_cpu()


if __name__ == "__main__":
    for stream in (sys.stdin, sys.stdout):
        stream.reconfigure(encoding="utf-8")
    sentences = [line.split() for line in sys.stdin]
    print("\n".join(lines(sentences, run(load(), sentences))))
