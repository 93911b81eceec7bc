"""Views with limits of every kind."""

from django.contrib.auth.views import LoginView
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.utils.decorators import method_decorator
from django.views import View

from overlimit.django import rate_limit


def index(request: HttpRequest) -> HttpResponse:
    """Have no limits but those of the settings."""
    return HttpResponse("Welcome.\n")


def health(request: HttpRequest) -> HttpResponse:
    """Be exempt by the settings."""
    return HttpResponse("ok\n")


# Who guesses passwords is stopped by address, and by the account that is guessed. Only failures count.
@method_decorator(
    rate_limit(
        "3/minute",
        key=["ip", "post:username"],
        methods="POST",
        deduct_when=lambda response: response.status_code == 200,  # a login that succeeds is a redirect
        error_message="Too many attempts to log in.",
    ),
    name="dispatch",
)
class Login(LoginView):
    """Django's login."""


def rate_of(request: HttpRequest) -> str:
    """Look up whose requests these are, in a thread, as the view is async."""
    is_partner = request.user.groups.filter(name="partners").exists()
    return "10/second; 200/minute" if is_partner else "10/second; 20/minute"


@rate_limit(rate_of)
async def search(request: HttpRequest) -> JsonResponse:
    """Search, several limits at once."""
    decision = request.rate_limit  # None while limits are switched off
    return JsonResponse({"found": [], "remaining": decision.remaining if decision else None})


@method_decorator(rate_limit("10/minute", cost=5), name="dispatch")
class Report(View):
    """A page that costs as much as five others."""

    def get(self, request: HttpRequest) -> HttpResponse:
        """Write the report."""
        return HttpResponse("A long report.\n")


@rate_limit("2/minute", block=False)
def comment(request: HttpRequest) -> HttpResponse:
    """Ask for proof of a human instead of refusing."""
    limited = request.rate_limit is not None and not request.rate_limit
    return HttpResponse("Please solve this puzzle first.\n" if limited else "Thank you.\n")
