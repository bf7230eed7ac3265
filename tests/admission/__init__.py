"""Answers of a real kube-apiserver about admission policies and admission webhooks, kept as data: `answers.json`.

`make admission-record LAB=…` asks a kube-apiserver of the lab again.
"""
