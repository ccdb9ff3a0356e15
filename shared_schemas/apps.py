"""What an operator can disable: the pages, and the realtime protocol."""

from dataclasses import dataclass

from pydantic import BaseModel, Field

from antiphon.shared_schemas.states import SessionKind


@dataclass(frozen=True, slots=True)
class App:
    """One switch. `page` is False when `route` is not a page; menus do not show it then."""

    app_id: str
    name: str
    route: str
    page: bool = True


TURNBASED = App("turnbased", "Turn-based Chat", "/turnbased")
HALF_DUPLEX = App("half_duplex_audio", "Half-Duplex Audio", "/half_duplex")
OMNI = App("omni", "Omni Full-Duplex", "/omni")
AUDIO_DUPLEX = App("audio_duplex", "Audio Full-Duplex", "/audio_duplex")
REALTIME = App("realtime", "Realtime API", "/v1/realtime", page=False)

APPS = {app.app_id: app for app in (AUDIO_DUPLEX, OMNI, TURNBASED, HALF_DUPLEX, REALTIME)}
"""In the order of the menu."""

APP_OF_KIND = {
    SessionKind.CHAT: TURNBASED,
    SessionKind.HALF_DUPLEX: HALF_DUPLEX,
    SessionKind.AUDIO_DUPLEX: AUDIO_DUPLEX,
    SessionKind.OMNI_DUPLEX: OMNI,
    SessionKind.TURNS: REALTIME,
}
"""The page of each kind of session; `/v1/realtime` has a separate switch."""


class PageInfo(BaseModel):
    """An entry of the menu."""

    app_id: str
    name: str
    route: str


class AppInfo(PageInfo):
    """A switch and its state."""

    enabled: bool


class Pages(BaseModel):
    """The enabled pages, in the order of the menu."""

    apps: list[PageInfo]


class AppList(BaseModel):
    """All switches."""

    apps: list[AppInfo]


class AppSwitch(BaseModel):
    """The wanted state of a switch."""

    enabled: bool = Field(strict=True)


class AppSwitched(BaseModel):
    """The new state of a switch."""

    success: bool
    app: AppInfo
