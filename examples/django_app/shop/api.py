"""The API."""

from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from overlimit.django.drf import OverlimitThrottle


class OrdersThrottle(OverlimitThrottle):
    """Limits orders by the rate of this scope in the settings."""

    scope = "orders"


class Orders(APIView):
    """A resource under a throttle."""

    throttle_classes = (OrdersThrottle,)

    def get(self, request: Request) -> Response:
        """List no orders."""
        return Response([])
