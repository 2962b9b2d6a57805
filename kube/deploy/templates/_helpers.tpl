{{/*
The objects of the chart are the files that kubectl apply -k applies: a directory renders what
its kustomization.yaml lists. The values choose directories and change the two workloads.

fettle.directory takes a dict: root (the top context), dir (a directory of the chart).
*/}}
{{- define "fettle.directory" -}}
{{- $root := .root }}
{{- $dir := .dir }}
{{- $kustomization := include "fettle.read" (dict "root" $root "file" (printf "%s/kustomization.yaml" $dir)) | fromYaml }}
{{- range $kustomization.resources }}
{{- $path := printf "%s/%s" $dir . }}
{{- if hasSuffix ".yaml" $path }}
{{- include "fettle.file" (dict "root" $root "file" $path) }}
{{- else }}
{{- include "fettle.directory" (dict "root" $root "dir" $path) }}
{{- end }}
{{- end }}
{{- end }}

{{/* fettle.read takes a dict: root, file. A file that the chart lacks is an error. */}}
{{- define "fettle.read" -}}
{{- required (printf "the chart lacks %s" .file) (.root.Files.Get (clean .file)) }}
{{- end }}

{{/* fettle.file renders the objects of a file. It takes a dict: root, file. */}}
{{- define "fettle.file" -}}
{{- $root := .root }}
{{- range splitList "\n---\n" (include "fettle.read" .) }}
{{- $object := fromYaml . }}
{{- $labels := include "fettle.labels" $root | fromYaml }}
{{- $_ := set $object.metadata "labels" (merge (dict) ($object.metadata.labels | default (dict)) $labels) }}
{{- if eq $object.kind "CustomResourceDefinition" }}
{{- /* With a kind, all its objects would be deleted. */}}
{{- $_ := set $object.metadata "annotations" (dict "helm.sh/resource-policy" "keep") }}
{{- else if eq $object.kind "Deployment" }}
{{- $_ := set $object.spec "replicas" (int $root.Values.operator.replicas) }}
{{- include "fettle.workload" (dict "root" $root "pod" $object.spec.template.spec "values" $root.Values.operator) }}
{{- else if eq $object.kind "DaemonSet" }}
{{- $_ := set $object.spec.updateStrategy.rollingUpdate "maxUnavailable" $root.Values.agent.maxUnavailable }}
{{- include "fettle.workload" (dict "root" $root "pod" $object.spec.template.spec "values" $root.Values.agent) }}
{{- end }}
{{- if or (ne $object.kind "NetworkPolicy") $root.Values.networkPolicy }}
---
{{ toYaml $object }}
{{- end }}
{{- end }}
{{- end }}

{{/* fettle.workload changes the pod of a workload. It takes a dict: root, pod, values. */}}
{{- define "fettle.workload" -}}
{{- $container := first .pod.containers }}
{{- $_ := set $container "image" (include "fettle.image" .root) }}
{{- $_ := set $container "imagePullPolicy" .root.Values.image.pullPolicy }}
{{- $_ := set $container "args" (concat $container.args .values.args) }}
{{- $_ := set $container "resources" .values.resources }}
{{- $_ := set .pod "tolerations" .values.tolerations }}
{{- with merge (dict) (.pod.nodeSelector | default (dict)) .values.nodeSelector }}
{{- $_ := set $.pod "nodeSelector" . }}
{{- end }}
{{- with .values.affinity }}
{{- $_ := set $.pod "affinity" . }}
{{- end }}
{{- with .root.Values.imagePullSecrets }}
{{- $_ := set $.pod "imagePullSecrets" . }}
{{- end }}
{{- end }}

{{- define "fettle.image" -}}
{{- with .Values.image -}}
{{- if .digest }}{{ .repository }}@{{ .digest }}{{ else }}{{ .repository }}:{{ .tag | default $.Chart.AppVersion }}{{ end }}
{{- end }}
{{- end }}

{{/* fettle.labels are added to each object; its own take precedence. */}}
{{- define "fettle.labels" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
{{- end }}
