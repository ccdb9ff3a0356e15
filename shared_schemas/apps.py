"""What an operator can switch off: the pages, and the realtime protocol."""

from __future__ import annotations

from dataclasses import dataclass

from pydantic import BaseModel, Field

from antiphon.shared_schemas.states import SessionKind


@dataclass(frozen=True, slots=True)
class App:
    """One switch. `page` is False where `route` is no page, so that no menu shows it."""

    app_id: str
    name: str
    route: str
    page: bool = True


TURNBASED = App("turnbased", "Turn-based Chat", "/turnbased")
HALF_DUPLEX = App("half_duplex_audio", "Half-Duplex Audio", "/half_duplex")
OMNI = App("omni", "Omni Full-Duplex", "/omni")
AUDIO_DUPLEX = App("audio_duplex", "Audio Full-Duplex", "/audio_duplex")
REALTIME = App("realtime", "Realtime API", "/v1/realtime", page=False)

APPS = {app.app_id: app for app in (TURNBASED, HALF_DUPLEX, OMNI, AUDIO_DUPLEX, REALTIME)}
"""All of them, in the order that menus show."""

APP_OF_KIND = {
    SessionKind.CHAT: TURNBASED,
    SessionKind.HALF_DUPLEX: HALF_DUPLEX,
    SessionKind.AUDIO_DUPLEX: AUDIO_DUPLEX,
    SessionKind.OMNI_DUPLEX: OMNI,
}
"""The page that a session of each kind belongs to; `/v1/realtime` has a switch of its own."""


class PageInfo(BaseModel):
    """An entry of the menu."""

    app_id: str
    name: str
    route: str


class AppInfo(PageInfo):
    """A switch and how it stands."""

    enabled: bool


class Pages(BaseModel):
    """The pages that are on, in the order of the menu."""

    apps: list[PageInfo]


class AppList(BaseModel):
    """Every switch."""

    apps: list[AppInfo]


class AppSwitch(BaseModel):
    """How a switch shall stand."""

    enabled: bool = Field(strict=True)


class AppSwitched(BaseModel):
    """How a switch stands now."""

    success: bool
    app: AppInfo
