"""The API page groups the routes by their tags."""

from antiphon.edge.app import description


def test_every_route_is_in_one_group_with_a_description() -> None:
    document = description()
    groups = [tag["name"] for tag in document["tags"] if tag["description"]]
    used = {
        f"{method} {path}": operation.get("tags")
        for path, operations in document["paths"].items()
        for method, operation in operations.items()
    }
    assert {route for route, tags in used.items() if tags is None or len(tags) != 1} == set()
    assert {tags[0] for tags in used.values()} == set(groups)
    refused = {route for route in used if "/api/admin/" in route}
    assert refused
    assert {used[route][0] for route in refused} == {"administration"}
