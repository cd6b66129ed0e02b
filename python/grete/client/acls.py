"""ACLs: who may or may not do what with which resources (KIP-11, KIP-290). The names are Kafka's."""

from dataclasses import dataclass
from enum import IntEnum
from typing import TypeVar

AclTuple = tuple[int, str, int, str, str, int, int]
AclFilterTuple = tuple[int, str | None, int, str | None, str | None, int, int]

_CLUSTER_NAME = "kafka-cluster"
_MAX_TEXT_BYTES = 32_767


class ResourceType(IntEnum):
    """Type of a resource. ANY is for filters only; UNKNOWN is a type that this version of Grete does not know."""

    UNKNOWN = 0
    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class PatternType(IntEnum):
    """Meaning of a resource's name. ANY and MATCH are for filters only.

    LITERAL: the resource has this very name, and "*" is every resource. PREFIXED: its name begins so. MATCH: the filter
    finds the ACLs whose patterns cover a resource of this name.
    """

    UNKNOWN = 0
    ANY = 1
    MATCH = 2
    LITERAL = 3
    PREFIXED = 4


class AclOperation(IntEnum):
    """Operation on a resource. ANY is for filters only; ALL is every operation.

    READ, WRITE, DELETE and ALTER imply DESCRIBE where they are allowed, and ALTER_CONFIGS implies DESCRIBE_CONFIGS.
    """

    UNKNOWN = 0
    ANY = 1
    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14
    TWO_PHASE_COMMIT = 15


class AclPermission(IntEnum):
    """Effect of an ACL. DENY wins over every ALLOW. ANY is for filters only."""

    UNKNOWN = 0
    ANY = 1
    DENY = 2
    ALLOW = 3


@dataclass(frozen=True, slots=True)
class AclBinding:
    """ACL: `principal` may (or may not: DENY) do `operation` with the resources of `name`, from `host`.

    `principal` is like "User:alice"; "User:*" is everyone. `host` is the address of the client; "*" is every address.
    The name of the only resource of the type CLUSTER is "kafka-cluster".
    """

    resource_type: ResourceType
    name: str
    principal: str
    operation: AclOperation
    permission: AclPermission = AclPermission.ALLOW
    pattern_type: PatternType = PatternType.LITERAL
    host: str = "*"


@dataclass(frozen=True, slots=True)
class AclFilter:
    """Filter of ACLs. ANY and None stand for every value, so that `AclFilter()` finds all ACLs.

    Operations are compared as they are: a filter for DESCRIBE does not find an ACL for READ, which implies DESCRIBE.
    """

    resource_type: ResourceType = ResourceType.ANY
    name: str | None = None
    principal: str | None = None
    operation: AclOperation = AclOperation.ANY
    permission: AclPermission = AclPermission.ANY
    pattern_type: PatternType = PatternType.ANY
    host: str | None = None


def binding_to_native(method: str, binding: object) -> AclTuple:
    """Checks an ACL that is created. Raises TypeError for another type, ValueError for what no ACL can have."""
    if not isinstance(binding, AclBinding):
        raise TypeError(f"{method} takes a list of AclBinding, not {type(binding).__name__}")
    kind = _member(method, ResourceType, binding.resource_type, "resource_type", {ResourceType.ANY})
    pattern = _member(method, PatternType, binding.pattern_type, "pattern_type", {PatternType.ANY, PatternType.MATCH})
    operation = _member(method, AclOperation, binding.operation, "operation", {AclOperation.ANY})
    permission = _member(method, AclPermission, binding.permission, "permission", {AclPermission.ANY})
    name = _text(method, "name", binding.name)
    if kind == ResourceType.CLUSTER and name != _CLUSTER_NAME:
        raise ValueError(f'{method}: the name of the cluster is "{_CLUSTER_NAME}", not {name!r}')
    principal = _text(method, "principal", binding.principal)
    before, colon, after = principal.partition(":")
    if not (before and colon and after):
        raise ValueError(f'{method}: a principal is TYPE:NAME, like "User:alice", not {principal!r}')
    return kind, name, pattern, principal, _text(method, "host", binding.host), operation, permission


def filter_to_native(method: str, wanted: object) -> AclFilterTuple:
    """Checks a filter. Raises TypeError for another type, ValueError for a value that no filter can have."""
    if not isinstance(wanted, AclFilter):
        raise TypeError(f"{method} takes AclFilter, not {type(wanted).__name__}")
    return (
        _member(method, ResourceType, wanted.resource_type, "resource_type", set()),
        None if wanted.name is None else _text(method, "name", wanted.name),
        _member(method, PatternType, wanted.pattern_type, "pattern_type", set()),
        None if wanted.principal is None else _text(method, "principal", wanted.principal),
        None if wanted.host is None else _text(method, "host", wanted.host),
        _member(method, AclOperation, wanted.operation, "operation", set()),
        _member(method, AclPermission, wanted.permission, "permission", set()),
    )


def binding_from_native(native: AclTuple) -> AclBinding:
    """Converts an ACL of a broker. A number that this version does not know becomes UNKNOWN."""
    kind, name, pattern, principal, host, operation, permission = native
    return AclBinding(
        resource_type=_known(ResourceType, kind),
        name=name,
        principal=principal,
        operation=_known(AclOperation, operation),
        permission=_known(AclPermission, permission),
        pattern_type=_known(PatternType, pattern),
        host=host,
    )


def operations_from_native(bits: int) -> frozenset[AclOperation] | None:
    """Returns the operations of a set of bits, each by its number; None: the broker has not said."""
    if bits < 0:
        return None
    return frozenset(operation for operation in AclOperation if operation > 1 and bits >> operation & 1)


E = TypeVar("E", bound=IntEnum)


def _known(kind: type[E], number: int) -> E:
    try:
        return kind(number)
    except ValueError:
        return kind(0)


def _member(method: str, kind: type[E], value: object, what: str, only_for_filters: set[E]) -> int:
    if not isinstance(value, kind):
        raise TypeError(f"{method}: {what} is a member of {kind.__name__}, not {value!r}")
    if value == 0:
        raise ValueError(f"{method}: {what} cannot be UNKNOWN")
    if value in only_for_filters:
        raise ValueError(f"{method}: {what} {value.name} is for filters: an ACL needs one value")
    return int(value)


def _text(method: str, what: str, value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{method}: {what} is a str, not {type(value).__name__}")
    if not value:
        raise ValueError(f"{method}: {what} cannot be empty")
    try:
        size = len(value.encode())
    except UnicodeEncodeError:
        raise ValueError(f"{method}: {what} {value!r} is not text that can be sent") from None
    if size > _MAX_TEXT_BYTES:
        raise ValueError(f"{method}: {what} has at most {_MAX_TEXT_BYTES} bytes, not {size}")
    return value
