"""Installs the libraries of the extra "clients" into a folder, except packages that .venv has.

usage: install_clients.py FOLDER
"""

import json
import pathlib
import subprocess
import sys
import tomllib

ROOT = pathlib.Path(__file__).resolve().parents[1]


def main(folder):
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = project["optional-dependencies"]["clients"]
    # With --target alone, pip would install the dependencies that .venv has, PyTorch too.
    resolved = subprocess.run(
        [sys.executable, "-m", "pip", "install", "--dry-run", "--quiet", "--report", "-", *wanted],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    )
    reported = [item["metadata"] for item in json.loads(resolved.stdout)["install"]]
    missing = [f"{item['name']}=={item['version']}" for item in reported]
    install = [sys.executable, "-m", "pip", "install", "--no-deps", "--target", folder]
    subprocess.run([*install, *missing], check=True)


if __name__ == "__main__":
    main(sys.argv[1])
