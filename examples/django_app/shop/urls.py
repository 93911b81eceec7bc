"""The paths."""

from django.urls import path

from shop import api, views

urlpatterns = [
    path("", views.index),
    path("login/", views.Login.as_view()),
    path("search", views.search),
    path("report", views.Report.as_view()),
    path("comment", views.comment),
    path("health", views.health),
    path("api/orders", api.Orders.as_view()),
]
