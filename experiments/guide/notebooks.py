"""Run the notebooks and save what they show: `python experiments/guide/notebooks.py [NAME ...]` (`make notebooks`).

A notebook is one file, `notebooks/NAME.ipynb`: edit it in Jupyter, then run this. It is run in its folder, without a
network and with an empty cache of its own, so that its outputs depend on nothing of the machine.
"""

from __future__ import annotations

import base64
import os
import re
import sys
import tempfile
from io import BytesIO
from pathlib import Path
from typing import Any
from unittest.mock import patch

import nbformat
from jupyter_client.manager import AsyncKernelManager
from nbclient import NotebookClient
from nbclient.output_widget import OutputWidget
from PIL import Image

FOLDER = Path(__file__).parents[2] / "notebooks"
WIDGET = "application/vnd.jupyter.widget-view+json"
HOMES = ("JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR", "IPYTHONDIR", "HOME")
SECONDS = 600  # of a cell, at most
PNG, DPI, COLOURS = "image/png", 72, 128  # of pictures


def executed(notebook: Any, folder: Path = FOLDER) -> Any:
    """The notebook with the outputs of a run in a folder, as they are saved.

    The kernel reads no settings of the user and listens on no port. A widget is not saved: without its kernel it shows
    nothing.

    Raises:
        CellExecutionError: a cell fails.
    """
    with tempfile.TemporaryDirectory(prefix="nb-") as home:  # a short path: the kernel's sockets are named by it

        class OnSockets(AsyncKernelManager):
            def __init__(self, **options: Any) -> None:
                super().__init__(transport="ipc", connection_file=f"{home}/kernel.json", **options)

        profile = Path(home, "profile_default", "ipython_kernel_config.py")
        profile.parent.mkdir()
        profile.write_text(f"c.InlineBackend.rc = {{'figure.dpi': {DPI}}}\n", "utf-8")
        options = {"timeout": SECONDS, "record_timing": False}
        client = NotebookClient(notebook, resources={"metadata": {"path": str(folder)}}, **options)
        client.kernel_manager_class = OnSockets
        # to send a widget's outputs to the kernel while its answer is awaited can lose the answer
        silent = patch.object(OutputWidget, "sync_state", lambda _: None)
        with silent, patch.dict(os.environ, dict.fromkeys(HOMES, home)):
            os.environ.pop("MPLBACKEND", None)  # the kernel's own shows plots
            client.execute(env={**os.environ, "CTXBENCH_CACHE": f"{home}/cache", "CTXBENCH_OFFLINE": "1"})
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs = [output for output in cell.outputs if _is_saved(output.get("data", output))]
            cell.execution_count = None
            for output in cell.outputs:
                _tidy(output)
    notebook.metadata.pop("widgets", None)
    notebook.metadata.language_info = {"name": "python"}
    return notebook


def _is_saved(texts: Any) -> bool:
    """Whether an output is neither a widget nor progress that has ended."""
    return WIDGET not in texts and texts.get("text/plain") != ""


def _tidy(output: Any) -> None:
    """Leave out what differs from run to run (numbers, addresses, temporary folders), and make pictures small."""
    if "execution_count" in output:
        output.execution_count = None
    texts = output.get("data", output)
    if PNG in texts:
        picture, file = Image.open(BytesIO(base64.b64decode(texts[PNG]))), BytesIO()
        picture.convert("RGB").quantize(COLOURS).save(file, "PNG", optimize=True)
        texts[PNG] = base64.b64encode(file.getvalue()).decode()
    for name in texts.keys() & {"text", "text/plain", "text/html"}:
        temporary = re.escape(tempfile.gettempdir())
        texts[name] = re.sub(rf"{temporary}/[\w.-]+", "TEMP", re.sub(r"0x[0-9a-f]{6,}", "0x0", texts[name]))


def main(names: list[str]) -> None:
    """Run the notebooks of these names, or all."""
    for path in sorted(FOLDER.glob("*.ipynb")):
        if not names or path.stem in names:
            sys.stderr.write(f"{path.stem}\n")
            nbformat.write(executed(nbformat.read(path, as_version=4)), path)


if __name__ == "__main__":
    main(sys.argv[1:])
