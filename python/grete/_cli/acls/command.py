"""Commands `grete acls list`, `create` and `delete`."""

from collections.abc import Callable, Iterable
from enum import IntEnum
from typing import TypeVar

import click

from grete._cli.session import AdminSession, admin_command, confirm, confirm_options
from grete._cli.terminal import output
from grete.client import AclBinding, AclFilter, AclOperation, AclPermission, PatternType, ResourceType

_CLUSTER = "kafka-cluster"
_FIELDS = ("resource", "name", "pattern", "principal", "host", "operation", "permission")

Resource = tuple[ResourceType, str]

# Operations that brokers check for a resource. An ACL for another one has no effect.
_APPLICABLE = {
    ResourceType.TOPIC: (
        AclOperation.ALL,
        AclOperation.READ,
        AclOperation.WRITE,
        AclOperation.CREATE,
        AclOperation.DELETE,
        AclOperation.ALTER,
        AclOperation.DESCRIBE,
        AclOperation.DESCRIBE_CONFIGS,
        AclOperation.ALTER_CONFIGS,
    ),
    ResourceType.GROUP: (
        AclOperation.ALL,
        AclOperation.READ,
        AclOperation.DELETE,
        AclOperation.DESCRIBE,
        AclOperation.DESCRIBE_CONFIGS,
        AclOperation.ALTER_CONFIGS,
    ),
    ResourceType.CLUSTER: (
        AclOperation.ALL,
        AclOperation.CREATE,
        AclOperation.ALTER,
        AclOperation.DESCRIBE,
        AclOperation.CLUSTER_ACTION,
        AclOperation.DESCRIBE_CONFIGS,
        AclOperation.ALTER_CONFIGS,
        AclOperation.IDEMPOTENT_WRITE,
    ),
    ResourceType.TRANSACTIONAL_ID: (
        AclOperation.ALL,
        AclOperation.WRITE,
        AclOperation.DESCRIBE,
    ),
}


@click.group()
def acls() -> None:
    """ACLs: list, create, delete. The brokers need an authorizer (authorizer.class.name; `grete dev --acls`).

    Exit status 1: the command failed.
    """


def words(member: IntEnum) -> str:
    """Returns a name as Kafka's tools write it: DescribeConfigs, TransactionalId."""
    return "".join(part.capitalize() for part in member.name.split("_"))


E = TypeVar("E", bound=IntEnum)


def _one_of(kind: type[E], *left_out: E) -> "click.Choice[str]":  # generic from click 8.2 on
    return click.Choice([words(one) for one in kind if one and one not in left_out], case_sensitive=False)


def _member(kind: type[E], text: str) -> E:
    return next(one for one in kind if words(one).lower() == text.lower())


_OPERATIONS = _one_of(AclOperation, AclOperation.ANY)


def _resource_options(function: Callable[..., None]) -> Callable[..., None]:
    add = click.option
    for decorate in (
        add(
            "--resource-pattern-type",
            "pattern",
            help="Meaning of the names.",
            type=click.Choice(["literal", "prefixed", "any", "match"], case_sensitive=False),
        ),
        add("--transactional-id", "transactional_ids", multiple=True, metavar="ID", help='Or "*"; repeatable.'),
        add("--cluster", is_flag=True, help="The cluster."),
        add("--group", "groups", multiple=True, metavar="GROUP", help='A group, or "*" for all; repeatable.'),
        add("--topic", "topics", multiple=True, metavar="TOPIC", help='A topic, or "*" for all; repeatable.'),
    ):
        function = decorate(function)
    return function


def _principal_options(function: Callable[..., None]) -> Callable[..., None]:
    add = click.option
    for decorate in (
        add("--deny-host", "deny_hosts", multiple=True, metavar="ADDRESS", help="Only from there; repeatable."),
        add("--allow-host", "allow_hosts", multiple=True, metavar="ADDRESS", help="Only from there; repeatable."),
        add("--operation", "operations", multiple=True, type=_OPERATIONS, help="Repeatable.  [default: All]"),
        add("--deny-principal", "denied", multiple=True, metavar="PRINCIPAL", help="As above, denied; repeatable."),
        add(
            "--allow-principal",
            "allowed",
            multiple=True,
            metavar="PRINCIPAL",
            help='Like User:alice; "User:*" is everyone; repeatable.',
        ),
    ):
        function = decorate(function)
    return function


def _convenience_options(function: Callable[..., None]) -> Callable[..., None]:
    add = click.option
    for decorate in (
        add("--consumer", is_flag=True, help="What a consumer needs: Read and Describe of --topic, Read of --group."),
        add(
            "--producer",
            is_flag=True,
            help="What a producer needs: Write, Describe and Create of --topic; with --transactional-id also that.",
        ),
    ):
        function = decorate(function)
    return function


def _resources(
    topics: Iterable[str], groups: Iterable[str], cluster: bool, transactional_ids: Iterable[str]
) -> list[Resource]:
    found = [(ResourceType.TOPIC, name) for name in topics]
    found += [(ResourceType.GROUP, name) for name in groups]
    found += [(ResourceType.TRANSACTIONAL_ID, name) for name in transactional_ids]
    return found + ([(ResourceType.CLUSTER, _CLUSTER)] if cluster else [])


def _wanted(
    resources: list[Resource], operations: tuple[str, ...], producer: bool, consumer: bool
) -> list[tuple[Resource, AclOperation]]:
    """Returns each resource with each operation."""
    if not resources:
        raise click.UsageError("say what about: --topic, --group, --cluster or --transactional-id")
    if not (producer or consumer):
        return [
            (resource, operation)
            for resource in resources
            for operation in [_member(AclOperation, one) for one in operations] or [AclOperation.ALL]
        ]
    if operations:
        raise click.UsageError("--producer and --consumer have operations of their own: leave out --operation")
    kinds = {kind for kind, _ in resources}
    if ResourceType.TOPIC not in kinds:
        raise click.UsageError("--producer and --consumer need a --topic")
    if consumer and ResourceType.GROUP not in kinds:
        raise click.UsageError("--consumer needs a --group")
    of_kind: dict[ResourceType, list[AclOperation]] = {}
    if producer:
        of_kind[ResourceType.TOPIC] = [AclOperation.WRITE, AclOperation.DESCRIBE, AclOperation.CREATE]
        of_kind[ResourceType.TRANSACTIONAL_ID] = [AclOperation.WRITE, AclOperation.DESCRIBE]
    if consumer:
        of_kind[ResourceType.TOPIC] = list(
            dict.fromkeys([AclOperation.READ, AclOperation.DESCRIBE, *of_kind.get(ResourceType.TOPIC, [])])
        )
        of_kind[ResourceType.GROUP] = [AclOperation.READ]
    return [(resource, operation) for resource in resources for operation in of_kind.get(resource[0], [])]


def _check_operations(wanted: list[tuple[Resource, AclOperation]]) -> None:
    for (kind, _), operation in wanted:
        if operation not in _APPLICABLE[kind]:
            some = ", ".join(words(one) for one in _APPLICABLE[kind])
            raise click.UsageError(f"no operation on a {words(kind)} needs {words(operation)}: give one of {some}")


def _check_hosts(
    allowed: tuple[str, ...], denied: tuple[str, ...], allow_hosts: tuple[str, ...], deny_hosts: tuple[str, ...]
) -> None:
    if allow_hosts and not allowed:
        raise click.UsageError("--allow-host needs --allow-principal")
    if deny_hosts and not denied:
        raise click.UsageError("--deny-host needs --deny-principal")


def _row(acl: AclBinding) -> tuple[str, ...]:
    return (
        words(acl.resource_type),
        acl.name,
        words(acl.pattern_type),
        acl.principal,
        acl.host,
        words(acl.operation),
        words(acl.permission),
    )


def _sentence(acl: AclBinding) -> str:
    kind = words(acl.resource_type)
    prefix = "names that begin with " if acl.pattern_type == PatternType.PREFIXED else ""
    what = f"{words(acl.permission)} {words(acl.operation)} on {kind} {prefix}{acl.name}"
    return f"{what} to {acl.principal} from {acl.host}"


def _facts(acl: AclBinding) -> dict[str, object]:
    return dict(zip(_FIELDS, _row(acl), strict=True))


@acls.command("list")
@_resource_options
@click.option("--principal", "principals", multiple=True, metavar="PRINCIPAL", help="Only of it; repeatable.")
@admin_command
def list_acls(
    session: AdminSession,
    topics: tuple[str, ...],
    groups: tuple[str, ...],
    cluster: bool,
    transactional_ids: tuple[str, ...],
    pattern: str | None,
    principals: tuple[str, ...],
) -> None:
    """Lists ACLs: all, or those about resources. `--resource-pattern-type match` lists all that cover a name."""
    resources = _resources(topics, groups, cluster, transactional_ids)
    kind = _member(PatternType, pattern or "any")
    found: dict[AclBinding, None] = {}
    everything: list[tuple[ResourceType, str | None]] = [(ResourceType.ANY, None)]
    for resource_type, name in resources or everything:
        for principal in principals or (None,):
            wanted = AclFilter(resource_type, name, principal, pattern_type=kind)
            found.update(dict.fromkeys(session.admin.describe_acls(wanted, timeout=session.timeout)))
    session.rows(_FIELDS, [_row(acl) for acl in found], if_empty="there are no such ACLs")


@acls.command()
@_principal_options
@_convenience_options
@_resource_options
@admin_command
def create(
    session: AdminSession,
    allowed: tuple[str, ...],
    denied: tuple[str, ...],
    operations: tuple[str, ...],
    allow_hosts: tuple[str, ...],
    deny_hosts: tuple[str, ...],
    producer: bool,
    consumer: bool,
    topics: tuple[str, ...],
    groups: tuple[str, ...],
    cluster: bool,
    transactional_ids: tuple[str, ...],
    pattern: str | None,
) -> None:
    """Adds ACLs. One that exists already is no error."""
    kind = _member(PatternType, pattern or "literal")
    if kind not in (PatternType.LITERAL, PatternType.PREFIXED):
        raise click.UsageError("an ACL is literal or prefixed: any and match are for list and delete")
    if not (allowed or denied):
        raise click.UsageError("say who: --allow-principal or --deny-principal")
    _check_hosts(allowed, denied, allow_hosts, deny_hosts)
    made: dict[AclBinding, None] = {}
    resources = _resources(topics, groups, cluster, transactional_ids)
    wanted = _wanted(resources, operations, producer, consumer)
    _check_operations(wanted)
    for (resource_type, name), operation in wanted:
        # The cluster has one name, which is no beginning of others.
        of_resource = PatternType.LITERAL if resource_type == ResourceType.CLUSTER else kind
        for permission, principals, hosts in (
            (AclPermission.ALLOW, allowed, allow_hosts),
            (AclPermission.DENY, denied, deny_hosts),
        ):
            for principal in principals:
                for host in hosts or ("*",):
                    acl = AclBinding(resource_type, name, principal, operation, permission, of_resource, host)
                    made[acl] = None
    try:
        session.admin.create_acls(made, timeout=session.timeout)
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    for acl in made:
        session.done(_sentence(acl), **_facts(acl), created=True)


@acls.command()
@_principal_options
@_convenience_options
@_resource_options
@confirm_options
@admin_command
def delete(
    session: AdminSession,
    allowed: tuple[str, ...],
    denied: tuple[str, ...],
    operations: tuple[str, ...],
    allow_hosts: tuple[str, ...],
    deny_hosts: tuple[str, ...],
    producer: bool,
    consumer: bool,
    topics: tuple[str, ...],
    groups: tuple[str, ...],
    cluster: bool,
    transactional_ids: tuple[str, ...],
    pattern: str | None,
    yes: bool,
    dry_run: bool,
) -> None:
    """Removes ACLs. Without principals and operations: all ACLs of the resources."""
    _check_hosts(allowed, denied, allow_hosts, deny_hosts)
    kind = _member(PatternType, pattern or "literal")
    resources = _resources(topics, groups, cluster, transactional_ids)
    wanted = (
        _wanted(resources, operations or ("Any",), False, False)
        if not (producer or consumer)
        else _wanted(resources, operations, producer, consumer)
    )
    filters = []
    for (resource_type, name), operation in wanted:
        who: list[tuple[AclPermission, str | None, str | None]] = [
            (AclPermission.ALLOW, principal, host) for principal in allowed for host in allow_hosts or (None,)
        ]
        who += [(AclPermission.DENY, principal, host) for principal in denied for host in deny_hosts or (None,)]
        for permission, principal, host in who or [(AclPermission.ANY, None, None)]:
            filters.append(AclFilter(resource_type, name, principal, operation, permission, kind, host))
    found: dict[AclBinding, None] = {}
    for one in filters:
        found.update(dict.fromkeys(session.admin.describe_acls(one, timeout=session.timeout)))
    if not found:
        output.note("there are no such ACLs")
        return
    if dry_run or not yes:
        for acl in found:
            if dry_run:
                session.done(f"would be deleted: {_sentence(acl)}", **_facts(acl), deleted=False)
            else:
                output.note(_sentence(acl))
    if not confirm(f"Delete {output.count_of(len(found), 'ACL')}?", yes, dry_run):
        return
    # The ACLs that were shown, not whatever the filters find by now.
    exact = [
        AclFilter(acl.resource_type, acl.name, acl.principal, acl.operation, acl.permission, acl.pattern_type, acl.host)
        for acl in found
    ]
    for acls_found in session.admin.delete_acls(exact, timeout=session.timeout):
        for acl in acls_found:
            session.done(f"deleted: {_sentence(acl)}", **_facts(acl), deleted=True)
