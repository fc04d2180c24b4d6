"""Carries out the steps of a Dockerfile in directory trees: image.py OPTIONS DOCKERFILE CONTEXT SCRATCH

Knows the instructions that deploy/Dockerfile uses and refuses any other. The tree of the last stage is
SCRATCH/image; what an engine would keep beside it, such as the user, goes to SCRATCH/image.json.

  --base NAME=TREE    the tree of a base image, after arguments are replaced
  --arg NAME=VALUE    an argument of the build
  --instead TEXT=DIR  a RUN with TEXT in it is not carried out: DIR is copied over the tree instead
"""
import argparse
import fnmatch
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

TREE = Path(__file__).resolve().parent / "tree.sh"
# In a shell, so that a tree is entered the same way by every check.
ENTER = f'. {TREE}; tree=$1; shared=$2; shift 2; inside "$tree" "$shared" "$@" "${{network[@]}}" /bin/sh -c "$SCRIPT"'


def instructions(text):
    """Yields (word, rest), continued lines joined, comments left out."""
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("#")]
    for line in "\n".join(lines).replace("\\\n", " ").splitlines():
        if line.strip():
            word, _, rest = line.strip().partition(" ")
            yield word.upper(), rest.strip()


def expand(text, names):
    """Replaces ${NAME}; a name that is not known is a mistake in the Dockerfile."""
    return re.sub(r"\$\{(\w+)\}", lambda found: names[found[1]], text)


class Stage:
    """One tree and the settings that go with it."""

    def __init__(self, tree, arguments):
        self.tree, self.arguments = tree, arguments
        self.env = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
        self.image = {"workdir": "/", "user": "0:0", "ports": []}

    def inside(self, path):
        return self.tree / path.lstrip("/")

    def run(self, script, context):
        variables = {"HOME": "/root", "DEBIAN_FRONTEND": "noninteractive", **self.arguments, **self.env}
        script = f"cd {self.image['workdir']} && {script}"
        command = ["bash", "-c", ENTER, "image.py", self.tree, context, "/usr/bin/env", "-i"]
        command += [f"{name}={value}" for name, value in variables.items()]
        subprocess.run(command, check=True, env={**os.environ, "SCRIPT": script}, stdout=sys.stderr)


def ignored(context):
    """A function for copytree that leaves out what .dockerignore names at the top."""
    names = [line for line in (context / ".dockerignore").read_text().splitlines() if line[:1] not in ("", "#")]

    def leave_out(directory, entries):
        if Path(directory) != context:
            return []
        return [entry for entry in entries if any(fnmatch.fnmatch(entry, name) for name in names)]

    return leave_out


def copy(rest, stage, stages, context):
    """COPY [--from=STAGE] SOURCE TARGET, of directories."""
    words = rest.split()
    origin = stages[words.pop(0).removeprefix("--from=")].tree if words[0].startswith("--from=") else None
    source, target = words
    target = stage.inside(target if target.startswith("/") else f"{stage.image['workdir']}/{target}")
    if origin:
        shutil.copytree(origin / source.lstrip("/"), target, dirs_exist_ok=True, symlinks=True)
    else:
        shutil.copytree(context / source, target, dirs_exist_ok=True, symlinks=True, ignore=ignored(context))


def build(options):
    stages, stage, given = {}, None, dict(options.arg)
    arguments = {}
    for word, rest in instructions(options.dockerfile.read_text()):
        names = {**arguments, **(stage.env if stage else {})}
        print(f"-- {word} {rest[:90]}", file=sys.stderr)
        if word == "ARG":
            name, _, default = rest.partition("=")
            arguments[name] = given.get(name, default)
        elif word == "FROM":
            base, _, name = expand(rest, names).partition(" AS ")
            tree = options.scratch / (name or "image")
            subprocess.run(["cp", "-a", dict(options.base)[base], tree], check=True)
            stage = stages[name] = Stage(tree, {})
        elif word == "RUN":
            instead = [copied for text, copied in options.instead if text in rest]
            if instead:
                shutil.copytree(instead[0], stage.tree, dirs_exist_ok=True)
            else:
                stage.run(rest, options.context)
        elif word == "COPY":
            copy(expand(rest, names), stage, stages, options.context)
        elif word == "ENV":
            name, _, value = rest.partition("=")
            stage.env[name] = expand(value, names)
        elif word == "WORKDIR":
            stage.image["workdir"] = expand(rest, names)
            stage.inside(rest).mkdir(parents=True, exist_ok=True)
        elif word == "USER":
            stage.image["user"] = rest
        elif word == "EXPOSE":
            stage.image["ports"] += rest.split()
        elif word == "HEALTHCHECK":
            stage.image["health"] = rest.partition("CMD ")[2]
        elif word == "CMD":
            stage.image["command"] = json.loads(rest)
        else:
            sys.exit(f"{word} is not known here: teach it to image.py")
    stage.image["env"] = stage.env
    (options.scratch / "image.json").write_text(json.dumps(stage.image, indent=1))


def pair(text):
    name, _, value = text.partition("=")
    return name, value


parser = argparse.ArgumentParser()
for option in ("--base", "--arg", "--instead"):
    parser.add_argument(option, type=pair, action="append", default=[])
for name in ("dockerfile", "context", "scratch"):
    parser.add_argument(name, type=lambda text: Path(text).resolve())
build(parser.parse_args())
