"""List pages whose cost does not grow with the table: limited counts and searches, filters with declared values."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from itertools import islice
from typing import Any

from django.contrib.admin import SimpleListFilter
from django.contrib.admin.views.main import ChangeList
from django.core.paginator import Paginator
from django.db.models import Max, Q, QuerySet

from apps.objects.models import ChangeLog
from apps.objects.tables import object_table
from controlplane.apimachinery.meta import Ref
from controlplane.kinds import CLUSTER

COUNTED = 10_000  # rows that a list counts and pages through; other rows are found by searching
PER_PAGE = 40  # rows of a list: 50 take more than 30 ms of CPU on a slow machine
SEARCHED_VERSIONS = 100_000  # newest changes that a search looks through, except a search for one object


class CappedPaginator(Paginator):
    """Counts at most COUNTED rows, so that a list of millions of rows costs no more than one of ten thousand.

    `is_capped`: there are more rows.
    """

    is_capped = False

    @cached_property
    def count(self) -> int:
        rows: Any = self.object_list
        counted: int = rows.order_by()[: COUNTED + 1].count()
        self.is_capped = counted > COUNTED
        return min(counted, COUNTED)


class RowsPage(ChangeList):
    """A page of a list. Its admin reads what the rows show of other tables for all rows at once (`attach`)."""

    def get_results(self, request: Any) -> None:
        super().get_results(request)
        self.result_list = list(self.result_list)
        page: Any = self.model_admin
        page.attach(self.result_list)
        self.is_capped, self.counted = self.paginator.is_capped, f"{COUNTED:,}"


def is_key(text: str) -> bool:
    """Test whether a part of a URL can be the key of a row. Python converts no number of thousands of digits."""
    return text.isascii() and text.isdecimal() and len(text) < 20


def search_objects(rows: QuerySet[Any], text: str) -> QuerySet[Any]:
    """Return the rows that match every word: a label (app=web), namespace/name, or a part of the name or namespace."""
    for word in text.split():
        key, equals, _ = word.partition("=")
        namespace, slash, name = word.partition("/")
        if equals and key:
            rows = rows.filter(labels__contains=[word])
        elif slash:
            in_place = Q(namespace=namespace, name__contains=name) if namespace else Q(name__contains=name)
            rows = rows.filter(in_place | Q(labels__contains=[word]))  # keys of labels may contain slashes too
        else:
            rows = rows.filter(Q(name__contains=word) | Q(namespace__contains=word) | Q(labels__contains=[word]))
    return rows


def search_log(rows: QuerySet[Any], text: str) -> QuerySet[Any]:
    """Return the changes of an object (Kind:namespace/name), or the newest changes by name, actor or reason."""
    for word in text.split():
        if ":" in word:
            ref = Ref.parse(word)
            rows = rows.filter(kind=ref.kind, namespace=ref.namespace, name=ref.name)
            continue
        newest = ChangeLog.objects.aggregate(newest=Max("version"))["newest"] or 0
        matches = Q(name__contains=word) | Q(namespace=word) | Q(actor__contains=word) | Q(reason=word)
        rows = rows.filter(matches, version__gt=newest - SEARCHED_VERSIONS)
    return rows


Choices = Iterable[tuple[str, str]]


def choices(
    parameter: str, title: str, values: Choices | Callable[[], Choices] = (), *, column: str = "", index: str = ""
) -> type[SimpleListFilter]:
    """Return a filter for lists whose values are declared, so that they need not be searched in the table.

    The filter compares a column (`column`, or else the one called `parameter`) or an index that the kind declares
    (`index`). A filter without values is not shown, and other pages link to it. A filter with more than LINKED values
    is a field that completes what is typed.
    """

    class Choice(SimpleListFilter):
        parameter_name = parameter

        def __init__(self, request: Any, params: Any, model: Any, model_admin: Any) -> None:
            super().__init__(request, params, model, model_admin)
            if len(self.lookup_choices) > LINKED:
                self.template = "admin/objects/typed_filter.html"
            self.others = [(name, value) for name, value in request.GET.items() if name not in (parameter, "p")]

        def lookups(self, request: Any, model_admin: Any) -> list[tuple[str, str]]:
            return list(values() if callable(values) else values)

        def choices(self, changelist: Any) -> Iterator[Any]:
            shown = super().choices(changelist)
            return islice(shown, 1) if len(self.lookup_choices) > LINKED else shown  # the first link is to all rows

        def queryset(self, request: Any, queryset: QuerySet[Any]) -> QuerySet[Any]:
            value = self.value()
            if value is None:
                return queryset
            if index:
                return queryset.filter(keys__contains=[f"{index}={value}"])
            return queryset.filter(**{column or parameter: "" if value == NONE else value})

    Choice.title = title
    return Choice


def cluster_names() -> Choices:
    """Return the clusters that a filter offers, at most OFFERED. Other names can be given in the URL."""
    names = object_table(CLUSTER).model.objects.order_by("name").values_list("name", flat=True)
    return [(name, name) for name in names[:OFFERED]]


OFFERED = 1000  # clusters
LINKED = 12  # values of a filter that are shown as links
NONE = "none"  # stands for the empty text in a URL
STATES = (("True", "True"), ("False", "False"), ("Unknown", "Unknown"), (NONE, "not reported"))
