"""A schema of a KubeRay RayJob file: the fields that KubeRay's API reference (ray.io/v1, 1.7) lists.

Ours, for KubeRay's own is in no package index. Stricter than theirs: a field that is not listed is an error and not
dropped, and of pods only what such files need is listed.
"""

from typing import Any

_TEXT, _COUNT, _FLAG = {"type": "string"}, {"type": "integer", "minimum": 0}, {"type": "boolean"}
_TEXTS = {"type": "object", "additionalProperties": _TEXT}
_NAME = {"type": "string", "pattern": "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$", "maxLength": 63}
_QUANTITY = {"type": "string", "pattern": r"^[0-9]+(\.[0-9]+)?(m|[KMGTPE]i?)?$"}


def _fields(required: tuple[str, ...] = (), **fields: Any) -> dict[str, Any]:
    return {"type": "object", "properties": fields, "required": list(required), "additionalProperties": False}


def _list(item: dict[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": item, "minItems": 1}


_QUANTITIES = {"type": "object", "additionalProperties": _QUANTITY}
_CONTAINER = _fields(
    ("name", "image", "resources"),
    name=_NAME,
    image=_TEXT,
    imagePullPolicy={"enum": ["Always", "IfNotPresent", "Never"]},
    ports=_list(_fields(("containerPort",), name={**_NAME, "maxLength": 15}, containerPort=_COUNT)),
    env=_list(_fields(("name",), name=_TEXT, value=_TEXT)),
    resources=_fields(("limits",), requests=_QUANTITIES, limits=_QUANTITIES),
    volumeMounts=_list(_fields(("name", "mountPath"), name=_NAME, mountPath=_TEXT, readOnly=_FLAG)),
)
_VOLUME = {
    **_fields(
        ("name",),
        name=_NAME,
        persistentVolumeClaim=_fields(("claimName",), claimName=_NAME, readOnly=_FLAG),
        configMap=_fields(("name",), name=_NAME),
        emptyDir=_fields(),
    ),
    "minProperties": 2,
    "maxProperties": 2,  # a name and one kind
}
_POD = _fields(
    ("spec",),
    metadata=_fields(labels=_TEXTS, annotations=_TEXTS),
    spec=_fields(
        ("containers",),
        containers=_list(_CONTAINER),
        volumes=_list(_VOLUME),
        securityContext=_fields(fsGroup=_COUNT, runAsUser=_COUNT, runAsGroup=_COUNT, runAsNonRoot=_FLAG),
        nodeSelector=_TEXTS,
        restartPolicy={"enum": ["Always", "OnFailure", "Never"]},
        serviceAccountName=_NAME,
        terminationGracePeriodSeconds=_COUNT,
    ),
)
_GROUP = {"rayStartParams": _TEXTS, "template": _POD, "resources": _TEXTS, "labels": _TEXTS}
_HEAD = _fields(("template",), serviceType=_TEXT, enableIngress=_FLAG, **_GROUP)
_WORKERS = _fields(
    ("groupName", "replicas", "minReplicas", "maxReplicas", "template"),
    groupName=_NAME,
    replicas=_COUNT,
    minReplicas=_COUNT,
    maxReplicas=_COUNT,
    numOfHosts=_COUNT,
    idleTimeoutSeconds=_COUNT,
    suspend=_FLAG,
    **_GROUP,
)
_CLUSTER = _fields(
    ("headGroupSpec",),
    rayVersion={"type": "string", "pattern": r"^[0-9]+\.[0-9]+\.[0-9]+$"},
    authOptions=_fields(mode={"enum": ["disabled", "token"]}, secretName=_NAME),
    enableInTreeAutoscaling=_FLAG,
    headGroupSpec=_HEAD,
    workerGroupSpecs=_list(_WORKERS),
    headServiceAnnotations=_TEXTS,
    suspend=_FLAG,
)
RAYJOB = _fields(
    ("apiVersion", "kind", "metadata", "spec"),
    apiVersion={"const": "ray.io/v1"},
    kind={"const": "RayJob"},
    metadata=_fields(("name",), name={**_NAME, "maxLength": 47}, namespace=_NAME, labels=_TEXTS, annotations=_TEXTS),
    spec=_fields(
        ("entrypoint", "rayClusterSpec"),
        entrypoint=_TEXT,
        entrypointNumCpus={"type": "number"},
        entrypointNumGpus={"type": "number"},
        entrypointResources=_TEXT,
        metadata=_TEXTS,
        runtimeEnvYAML=_TEXT,
        jobId=_TEXT,
        submissionMode={"enum": ["K8sJobMode", "HTTPMode", "InteractiveMode", "SidecarMode"]},
        submitterConfig=_fields(backoffLimit=_COUNT),
        shutdownAfterJobFinishes=_FLAG,
        ttlSecondsAfterFinished=_COUNT,
        activeDeadlineSeconds=_COUNT,
        backoffLimit=_COUNT,
        suspend=_FLAG,
        rayClusterSpec=_CLUSTER,
    ),
)
