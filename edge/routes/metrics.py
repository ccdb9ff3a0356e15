"""`/metrics`: what Prometheus reads of this edge, and of the whole system."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response
from prometheus_client.exposition import choose_encoder

from antiphon.edge.routes.dependencies import EdgeDep

router = APIRouter(tags=["health"])


@router.get("/metrics", include_in_schema=False)
async def metrics(edge: EdgeDep, request: Request) -> Response:
    """The exposition, in the form that the scraper asks for; answers even while Redis does not."""
    await edge.metrics.fleet.refresh(edge.broker)
    encode, media_type = choose_encoder(request.headers.get("accept", ""))
    return Response(encode(edge.metrics.registry), media_type=media_type)
