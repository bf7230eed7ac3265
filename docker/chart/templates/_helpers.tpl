{{/* The name of everything that the chart makes. */}}
{{- define "lifeboat.name" -}}
{{- if contains "lifeboat" .Release.Name }}{{ .Release.Name | trunc 50 | trimSuffix "-" }}{{ else }}{{ printf "%s-lifeboat" .Release.Name | trunc 50 | trimSuffix "-" }}{{ end }}
{{- end }}

{{- define "lifeboat.selector" -}}
app.kubernetes.io/name: lifeboat
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "lifeboat.labels" -}}
{{ include "lifeboat.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end }}

{{- define "lifeboat.image" -}}
{{- with .Values.image }}
{{- if .digest }}{{ .repository }}@{{ .digest }}{{ else }}{{ .repository }}:{{ .tag | default $.Chart.AppVersion }}{{ end }}
{{- end }}
{{- end }}

{{/* A variable from a Secret: (dict "name" VARIABLE "from" {name, key}). */}}
{{- define "lifeboat.fromSecret" -}}
- name: {{ .name }}
  valueFrom: {secretKeyRef: {name: {{ .from.name | quote }}, key: {{ .from.key | quote }}}}
{{- end }}

{{/* A setting as text. Helm reads numbers of YAML as floats, and would write a million as 1e+06. */}}
{{- define "lifeboat.setting" -}}
{{ if and (kindIs "float64" .) (eq (floor .) .) }}{{ printf "%.0f" . }}{{ else }}{{ toString . }}{{ end }}
{{- end }}

{{- define "lifeboat.environment" -}}
{{ include "lifeboat.fromSecret" (dict "name" "DATABASE_URL" "from" .Values.secrets.database) }}
{{ include "lifeboat.fromSecret" (dict "name" "REDIS_URL" "from" .Values.secrets.redis) }}
{{ include "lifeboat.fromSecret" (dict "name" "LIFEBOAT_SECRET_KEY" "from" .Values.secrets.secretKey) }}
{{ include "lifeboat.fromSecret" (dict "name" "LIFEBOAT_ENCRYPTION_KEYS" "from" .Values.secrets.encryptionKeys) }}
{{/* localhost is the name in the requests of probes, the name of the Service in those of Prometheus */ -}}
- {name: LIFEBOAT_ALLOWED_HOSTS, value: {{ join "," (concat (list "localhost" (printf "%s-api" (include "lifeboat.name" .)) (printf "%s-api.%s.svc" (include "lifeboat.name" .) .Release.Namespace)) .Values.hosts) | quote }}}
- {name: LIFEBOAT_TRUSTED_ORIGINS, value: {{ join "," .Values.trustedOrigins | quote }}}
- {name: FORWARDED_ALLOW_IPS, value: {{ join "," .Values.proxies | quote }}}
- {name: LIFEBOAT_HOME, value: /tmp/lifeboat}
- {name: LIFEBOAT_METRICS_HOST, value: "0.0.0.0"}
- {name: LIFEBOAT_METRICS_PORT, value: {{ .Values.metrics.port | quote }}}
{{- range $name, $value := .Values.settings }}
- {name: LIFEBOAT_{{ $name | upper | replace "." "_" }}, value: {{ include "lifeboat.setting" $value | quote }}}
{{- end }}
{{- with .Values.extraEnv }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/* Annotations of every pod. */}}
{{- define "lifeboat.annotations" -}}
{{- with .Values.podAnnotations }}
annotations: {{ toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{/* Labels of every pod: (dict "root" $ "name" …). Those of the values come first, so that none replaces one of ours. */}}
{{- define "lifeboat.podLabels" -}}
{{- $own := include "lifeboat.labels" .root | fromYaml }}
{{- toYaml (merge (dict "app.kubernetes.io/component" .name) $own .root.Values.podLabels) }}
{{- end }}

{{/* Fields of every pod, up to its containers: (dict "root" $ "name" …). */}}
{{- define "lifeboat.pod" -}}
{{- $component := .name }}
{{- with .root }}
{{- with .Values.serviceAccountName }}
serviceAccountName: {{ . | quote }}
{{- end }}
automountServiceAccountToken: false
enableServiceLinks: false
securityContext:
  runAsNonRoot: true
  runAsUser: 10001
  runAsGroup: 10001
  fsGroup: 10001
  seccompProfile: {type: RuntimeDefault}
volumes:
  - {name: tmp, emptyDir: {sizeLimit: 256Mi}}
{{- with .Values.extraVolumes }}
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.image.pullSecrets }}
imagePullSecrets: {{ toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.nodeSelector }}
nodeSelector: {{ toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.tolerations }}
tolerations: {{ toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.affinity }}
affinity: {{ toYaml . | nindent 2 }}
{{- end }}
{{- if .Values.spread.topologyKeys }}
topologySpreadConstraints:
{{- range .Values.spread.topologyKeys }}
  - maxSkew: 1
    topologyKey: {{ . }}
    whenUnsatisfiable: {{ $.root.Values.spread.whenUnsatisfiable }}
    labelSelector:
      matchLabels: {{ include "lifeboat.selector" $.root | nindent 8 }}
        app.kubernetes.io/component: {{ $component }}
{{- end }}
{{- end }}
{{- with .Values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- end }}
{{- end }}

{{/* Fields of every container, behind its name and command: (dict "root" $ "resources" …). */}}
{{- define "lifeboat.container" -}}
image: {{ include "lifeboat.image" .root | quote }}
imagePullPolicy: {{ .root.Values.image.pullPolicy }}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: {drop: [ALL]}
volumeMounts:
  - {name: tmp, mountPath: /tmp}
{{- with .root.Values.extraVolumeMounts }}
  {{- toYaml . | nindent 2 }}
{{- end }}
resources: {{ toYaml .resources | nindent 2 }}
{{- end }}

{{/* Probes at the metrics port, for processes that serve nothing else. */}}
{{- define "lifeboat.metricsProbes" -}}
startupProbe:
  httpGet: {path: /metrics, port: metrics}
  periodSeconds: 2
  failureThreshold: 60
livenessProbe:
  httpGet: {path: /metrics, port: metrics}
  periodSeconds: 20
  timeoutSeconds: 10
  failureThreshold: 6
{{- end }}

{{/* A Deployment without a Service: (dict "root" $ "name" … "command" … "replicas" … "strategy" … "grace" … "resources" …). */}}
{{- define "lifeboat.background" -}}
{{- $labels := dict "app.kubernetes.io/component" .name -}}
apiVersion: apps/v1
kind: Deployment
metadata:
  name: {{ include "lifeboat.name" .root }}-{{ .name }}
  namespace: {{ .root.Release.Namespace }}
  labels: {{ include "lifeboat.labels" .root | nindent 4 }}
    {{- toYaml $labels | nindent 4 }}
spec:
  replicas: {{ .replicas }}
  strategy: {{ toYaml .strategy | nindent 4 }}
  selector:
    matchLabels: {{ include "lifeboat.selector" .root | nindent 6 }}
      {{- toYaml $labels | nindent 6 }}
  template:
    metadata:
      labels: {{ include "lifeboat.podLabels" . | nindent 8 }}
      {{- include "lifeboat.annotations" .root | nindent 6 }}
    spec:
      {{- include "lifeboat.pod" . | nindent 6 }}
      terminationGracePeriodSeconds: {{ .grace }}
      containers:
        - name: {{ .name }}
          command: {{ toJson .command }}
          {{- include "lifeboat.container" . | nindent 10 }}
          env: {{ include "lifeboat.environment" .root | nindent 12 }}
          ports:
            - {name: metrics, containerPort: {{ .root.Values.metrics.port }}}
          {{- include "lifeboat.metricsProbes" . | nindent 10 }}
{{- end }}
