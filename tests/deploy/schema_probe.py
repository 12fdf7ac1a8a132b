"""Program, for the venv of the deploy tools: which documents their schemas do not allow.

Reads JSON: ``documents``, each with ``where`` it is from and the ``versions`` of Kubernetes that it is for,
and ``schemas`` of kinds that Kubernetes itself does not know. Prints the faults as ``[where, version, what]``.
"""

import json
import sys
from collections.abc import Iterator
from importlib import import_module
from typing import Any

# Where we are checked they are not installed.
jsonschema: Any = import_module("jsonschema")
kubernetes_validate: Any = import_module("kubernetes_validate")

OWN = "own"


def faults_of(document: dict[str, Any], version: str) -> Iterator[str]:
    """What the schema of one version of Kubernetes has against a document."""
    try:
        kubernetes_validate.validate(document, version, strict=True)
    except kubernetes_validate.ValidationError as error:
        yield f"{'.'.join(map(str, error.path))}: {error.message[:300]}"
    except kubernetes_validate.SchemaNotFoundError:
        yield f"no schema of {document['kind']}"


def faults_by(schema: dict[str, Any], document: dict[str, Any]) -> Iterator[str]:
    """What a schema of ours has against a document."""
    for error in jsonschema.Draft202012Validator(schema).iter_errors(document):
        yield f"{'.'.join(map(str, error.path))}: {error.message[:300]}"


def main() -> None:
    job = json.load(sys.stdin)
    found = []
    for one in job["documents"]:
        document = one["document"]
        schema = job["schemas"].get(document["kind"])
        if schema is not None:
            found += [[one["where"], OWN, what] for what in faults_by(schema, document)]
            continue
        for version in one["versions"]:
            found += [[one["where"], version, what] for what in faults_of(document, version)]
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    main()
