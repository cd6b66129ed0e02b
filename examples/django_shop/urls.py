"""Addresses of the project."""

from django.urls import path
from shop import views

urlpatterns = [path("customers/<str:customer>/orders", views.place)]
