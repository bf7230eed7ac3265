{{/* The name of everything that the chart makes. */}}
{{- define "agent.name" -}}
{{- if contains "lifeboat-agent" .Release.Name }}{{ .Release.Name | trunc 50 | trimSuffix "-" }}{{ else }}{{ printf "%s-lifeboat-agent" .Release.Name | trunc 50 | trimSuffix "-" }}{{ end }}
{{- end }}

{{- define "agent.selector" -}}
app.kubernetes.io/name: lifeboat-agent
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "agent.labels" -}}
{{ include "agent.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end }}

{{/* A setting as text. Helm reads numbers of YAML as floats, and would write a million as 1e+06. */}}
{{- define "agent.setting" -}}
{{ if and (kindIs "float64" .) (eq (floor .) .) }}{{ printf "%.0f" . }}{{ else }}{{ toString . }}{{ end }}
{{- end }}

{{/* Fields of both containers, behind their names and arguments. */}}
{{- define "agent.container" -}}
{{- with .Values.image }}
image: {{ if .digest }}{{ .repository }}@{{ .digest }}{{ else }}{{ .repository }}:{{ .tag | default $.Chart.AppVersion }}{{ end }}
imagePullPolicy: {{ .pullPolicy }}
{{- end }}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: {drop: [ALL]}
env:
  - {name: LIFEBOAT_HOME, value: /tmp/lifeboat}
  {{- range $name, $value := .Values.settings }}
  - {name: LIFEBOAT_{{ $name | upper | replace "." "_" }}, value: {{ include "agent.setting" $value | quote }}}
  {{- end }}
  {{- with .Values.extraEnv }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
resources: {{ toYaml .Values.resources | nindent 2 }}
{{- end }}
