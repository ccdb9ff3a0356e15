{{/* Labels that select the pods of a service: (list . "edge"). */}}
{{- define "antiphon.selector" -}}
app.kubernetes.io/name: antiphon
app.kubernetes.io/instance: {{ (index . 0).Release.Name }}
app.kubernetes.io/component: {{ index . 1 }}
{{- end -}}

{{- define "antiphon.labels" -}}
{{ include "antiphon.selector" . }}
app.kubernetes.io/version: {{ (index . 0).Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ (index . 0).Release.Service }}
helm.sh/chart: {{ (index . 0).Chart.Name }}-{{ (index . 0).Chart.Version }}
{{- end -}}

{{- define "antiphon.name" -}}
{{ (index . 0).Release.Name }}-{{ index . 1 }}
{{- end -}}

{{/* A number as it is written: YAML's are floats here, and large ones would be printed as 6.7108864e+07. */}}
{{- define "antiphon.text" -}}
{{- if and (kindIs "float64" .) (eq . (float64 (int64 .))) -}}{{ int64 . }}{{- else -}}{{ . }}{{- end -}}
{{- end -}}

{{/* Of this project: (list . "antiphon-service"). */}}
{{- define "antiphon.image" -}}
{{- $image := (index . 0).Values.image -}}
{{ $image.registry }}{{ index . 1 }}:{{ include "antiphon.text" ($image.tag | default (index . 0).Chart.AppVersion) }}
{{- end -}}

{{- define "antiphon.redisUrl" -}}
{{- if .Values.redis.enabled -}}
redis://{{ .Release.Name }}-redis:6379/0
{{- else -}}
{{ required "redis.enabled is false: set redis.url to your Redis" .Values.redis.url }}
{{- end -}}
{{- end -}}

{{- define "antiphon.recordingsClaim" -}}
{{ .Values.recordings.existingClaim | default (printf "%s-recordings" .Release.Name) }}
{{- end -}}

{{/* Pods restart when the settings change. */}}
{{- define "antiphon.annotations" -}}
antiphon/settings: {{ include (print .Template.BasePath "/settings.yaml") . | sha256sum }}
{{- end -}}

{{- define "antiphon.pod" -}}
automountServiceAccountToken: false
enableServiceLinks: false
{{- with .Values.image.pullSecrets }}
imagePullSecrets: {{- range . }}
  - name: {{ . }}
{{- end }}
{{- end }}
securityContext:
  runAsNonRoot: true
  runAsUser: 10001
  runAsGroup: 10001
  fsGroup: 10001
  fsGroupChangePolicy: OnRootMismatch
  seccompProfile: {type: RuntimeDefault}
{{- end -}}

{{- define "antiphon.container" -}}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: {drop: [ALL]}
{{- end -}}

{{/* The service of each pod answers while it loads or drains; it is ready when it takes work. */}}
{{- define "antiphon.probes" -}}
startupProbe: {httpGet: {path: /health, port: health}, periodSeconds: 2, failureThreshold: 150}
readinessProbe: {httpGet: {path: /ready, port: health}, periodSeconds: 3, timeoutSeconds: 3}
livenessProbe: {httpGet: {path: /health, port: health}, periodSeconds: 10, timeoutSeconds: 5}
{{- end -}}

{{/* The files of the secret that a service needs: (list . "redis_password" …). */}}
{{- define "antiphon.secrets" -}}
name: secrets
secret:
  secretName: {{ (index . 0).Values.secretName }}
  defaultMode: 0440
  items:
{{- range rest . }}
    - {key: {{ . }}, path: {{ . }}}
{{- end }}
{{- end -}}
