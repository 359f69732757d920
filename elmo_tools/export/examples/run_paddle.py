"""The exported model in Paddle Inference: pip install paddlepaddle numpy

python run_paddle.py < lines.txt          see README.md
"""

import sys
import warnings

import numpy as np

warnings.filterwarnings("ignore", message=".*ccache.*")
import paddle
from model_io import HERE, Run, main
from paddle import inference
from predict import predict


def load(threads: int = 1) -> Run:
    """Load the model, for this number of threads."""
    graph = HERE / "model.json"
    if not graph.exists():
        graph = HERE / "model.pdmodel"
    if graph.suffix == ".json" and paddle.version.major == "2":
        sys.exit(
            f"error: model.json needs Paddle 3, this is {paddle.__version__}. "
            "Export the model with this version."
        )
    config = inference.Config(str(graph), str(HERE / "model.pdiparams"))
    config.disable_mkldnn()  # with it, a tiny ELMo raised an exception in Paddle 3.3
    config.set_cpu_math_library_num_threads(threads)
    config.disable_glog_info()
    predictor = inference.create_predictor(config)

    def run(inputs: dict[str, np.ndarray]) -> list[np.ndarray]:
        for name, array in inputs.items():
            predictor.get_input_handle(name).copy_from_cpu(array)
        predictor.run()
        outputs = [predictor.get_output_handle(name) for name in predictor.get_output_names()]
        return [output.copy_to_cpu() for output in outputs]

    return run


if __name__ == "__main__":
    main(load, predict)
