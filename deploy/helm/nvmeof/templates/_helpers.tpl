{{- define "nvmeof.name" -}}
{{- if contains .Chart.Name .Release.Name }}{{ .Release.Name }}{{ else }}{{ .Release.Name }}-{{ .Chart.Name }}{{ end -}}
{{- end }}

{{- define "nvmeof.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "nvmeof.labels" -}}
{{ include "nvmeof.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}

{{- /* The document, with the address of the metrics. */}}
{{- define "nvmeof.document" -}}
{{- $document := deepCopy .Values.target }}
{{- if .Values.metrics.enabled }}{{ $_ := set $document "metrics" (dict "listen" .Values.metrics.listen) }}{{ end }}
{{- toYaml $document }}
{{- end }}

{{- /* The same, when no listener reaches the groups of drain. */}}
{{- define "nvmeof.drained" -}}
{{- $document := include "nvmeof.document" . | fromYaml }}
{{- $groups := list }}
{{- range .Values.drain.groups }}{{ $groups = append $groups (dict "group" . "state" "inaccessible") }}{{ end }}
{{- range $document.listeners }}{{ $_ := set . "ana-groups" $groups }}{{ end }}
{{- toYaml $document }}
{{- end }}
