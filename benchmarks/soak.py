"""Kill scripts with SIGKILL at random moments, again and again, and check that what they leave can be used.

    python benchmarks/soak.py [--times 100] [--seed 0]

Each script runs in a process of its own, is killed, and continues from what is left: pretraining and the tagger resume, or
start again if nothing was saved yet; embedding and downloading are simply repeated. After every kill all checkpoints in the
folder must load; in the end the last run must succeed. Prints a line per script.
"""

import argparse
import os
import random
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from multiprocessing import get_context
from pathlib import Path

os.environ["OMP_NUM_THREADS"] = "1"  # before Paddle: its threads do not survive a fork
PROJECT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(PROJECT))

import convert
import run_embed
import run_pretrain
import run_tag
from elmo_core.weights import checkpoint, published
from elmo_tasks import Tagger

NAME = "soaked"  # of the published model
TINY = ["--model_size=tiny", "--cell_dim=16", "--projection_dim=8", "--filters=1:4,2:6", "--device=cpu"]


def run(function: Callable, *arguments: object, seconds: float | None = None) -> bool:
    """Run a function in a new process, with its output in a file, and kill it after so many seconds.

    Returns whether it reached its end.
    """

    def work() -> None:
        output = os.open("soak.log", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(output, 1)
        os.dup2(output, 2)
        function(*arguments)

    process = get_context("fork").Process(target=work)
    process.start()
    if seconds is not None:
        time.sleep(seconds)
        process.kill()
    process.join()
    if process.exitcode and (seconds is None or process.exitcode != -signal.SIGKILL):
        sys.exit(f"a run failed with {process.exitcode}: {Path('soak.log').read_text(encoding='utf-8')}")
    return process.exitcode == 0


def kill_again_and_again(folder: Path, work: Callable[[Path], None], check: Callable[[Path], None], times: int) -> str:
    """Run until it is killed, `times` times, then to the end. After each, check the folder. Returns a line of results."""
    for _ in range(2):  # the first may be slower
        began = time.monotonic()
        run(work, folder)
        duration = time.monotonic() - began
        shutil.rmtree(folder)
    finished = 0
    for _ in range(times):
        was_faster = run(work, folder, seconds=random.uniform(0, duration))
        run(check, folder)
        if was_faster:
            finished += 1
            shutil.rmtree(folder)
    run(work, folder)
    run(check, folder)
    return f"{folder.name:10} {times} kills, {finished} of them after the end; whole after each"


def check_checkpoints(folder: Path) -> None:
    for step in checkpoint.steps(folder):
        checkpoint.load_params(folder / str(step))
        checkpoint.load_training(folder / str(step))


def check_model(folder: Path) -> None:
    if folder.exists():
        checkpoint.load_params(folder)


def pretrain(text: Path, vocabulary: Path, folder: Path) -> None:
    argv = [f"--train_data_path={text}", f"--vocab_file={vocabulary}", f"--save_dir={folder}", *TINY, "--batch_size=4"]
    argv += ["--max_steps=40", "--save_freq=2", "--log_freq=10", "--n_negative_samples=20", "--resume"]
    run_pretrain.main(argv)


def embed(text: Path, model: Path, folder: Path) -> None:
    folder.mkdir(exist_ok=True)
    run_embed.main([f"--init_from_ckpt={model}", f"--input={text}", f"--output={folder / 'v.hdf5'}", "--batch_size=2"])


def tag(text: Path, model: Path, folder: Path) -> None:
    argv = ["train", f"--train_file={text}", f"--init_from_ckpt={model}", f"--save_dir={folder}", "--device=cpu"]
    argv += ["--epochs=4", "--hidden_dim=8", "--word_dim=8", "--n_layers=1"]
    run_tag.main([*argv, "--resume" if (folder / "last.safetensors").exists() else "--overwrite"])


def check_tagger(folder: Path) -> None:
    if checkpoint.exists(folder):
        Tagger(folder).predict([["a"]])


def get(folder: Path) -> None:
    os.environ["ELMO_HOME"] = str(folder)
    convert.main(["get", NAME])


def publish(files: Path) -> None:
    """Serve a model's files, and enter it in the table."""

    class Handler(SimpleHTTPRequestHandler):
        log_message = staticmethod(lambda *_: None)

    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, directory=files))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    address = f"http://127.0.0.1:{server.server_port}"
    fields = dict.fromkeys(published.PublishedModel.__dataclass_fields__, "")
    fields |= {"name": NAME, "format": "bilm-tf", "files": f"{address}/options.json {address}/weights.hdf5"}
    published.table = lambda: {NAME: published.PublishedModel(**fields)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--times", type=int, default=100, help="kills of each script")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    random.seed(args.seed)
    with tempfile.TemporaryDirectory() as temporary:
        os.chdir(temporary)
        folder = Path(temporary)
        text, tagged = folder / "text.txt", folder / "tagged.txt"
        for path, source, n in ((text, "data/dev/dev-00000-of-00002", 300), (tagged, "data/lac/dev.txt", 60)):
            lines = (PROJECT / source).read_text(encoding="utf-8").splitlines()[:n]
            path.write_text("\n".join(lines) + "\n", encoding="utf-8")
        model = folder / "model"
        pretraining = partial(pretrain, text, PROJECT / "data/vocabulary.txt")
        run(pretraining, model)
        run(convert.main, ["export", str(model), f"--output={folder / 'published'}"])
        publish(folder / "published")
        runs = {
            "pretrain": (pretraining, check_checkpoints),
            "embed": (partial(embed, text, model), lambda _: None),
            "tag": (partial(tag, tagged, model), check_tagger),
            "get": (get, lambda path: check_model(path / "models" / NAME)),
        }
        for name, (work, check) in runs.items():
            print(kill_again_and_again(folder / name, work, check, args.times), flush=True)


if __name__ == "__main__":
    main()
