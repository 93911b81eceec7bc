"""``overlimit routes``: the routes of an app with their limits, and those that nothing protects."""

from __future__ import annotations

import click

from overlimit.command_line.failures import WrongUsage, reported

_EXAMPLES = """\b
Examples:
  overlimit routes main:app
  overlimit routes --factory shop.web:create_app --json
"""


@click.command(epilog=_EXAMPLES, short_help="List the limits of all routes of an app.")
@click.argument("app", metavar="MODULE:APP")
@click.option(
    "--app-dir",
    default=".",
    type=click.Path(exists=True, file_okay=False),
    show_default=True,
    metavar="DIR",
    help="Where the module is looked for.",
)
@click.option("--factory", is_flag=True, help="APP is a function that returns the app.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def routes(app: str, app_dir: str, *, factory: bool, as_json: bool) -> None:
    """List the limits of every route of a web app, and the routes that nothing protects.

    The app is imported, as a server would do. It is one of Flask, Quart or FastAPI with a RateLimit, or
    any for ASGI or WSGI with a RateLimitMiddleware, of which the patterns are listed where its routes cannot
    be found. Nothing is asked of a store, and no function of the app is called: where one decides during a
    request (on limits, costs, conditions or identifiers), its name is listed.
    """
    from overlimit.command_line.apps import LimitedApp, load_app
    from overlimit.http.reports import limits_list

    with reported():
        try:
            found = LimitedApp(load_app(app, app_dir, is_factory=factory))
        except RuntimeError as error:  # of a limit that has no RateLimit on this app
            raise WrongUsage(str(error)) from None
        click.echo(limits_list(found.rate_limits, found.routes, as_json=as_json))


@click.group(short_help="List the limits of an app.")
def limits() -> None:
    """List the limits of a web app, as ``overlimit routes`` does, which is the same by a shorter name."""


limits.add_command(routes, "list")
