{{- define "isthmus.fullname" -}}
{{- if contains .Chart.Name .Release.Name -}}{{ .Release.Name | trunc 53 | trimSuffix "-" }}{{- else -}}{{ printf "%s-%s" .Release.Name .Chart.Name | trunc 53 | trimSuffix "-" }}{{- end -}}
{{- end -}}

{{- define "isthmus.selectorLabels" -}}
app.kubernetes.io/name: isthmus
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "isthmus.labels" -}}
{{ include "isthmus.selectorLabels" . }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end -}}

{{- define "isthmus.serviceAccountName" -}}
{{- .Values.serviceAccount.name | default (include "isthmus.fullname" .) -}}
{{- end -}}

{{- define "isthmus.image" -}}
{{- with .Values.image -}}
{{- if .digest -}}{{ .repository }}@{{ .digest }}{{- else -}}{{ .repository }}:{{ .tag | default $.Chart.AppVersion }}{{- end -}}
{{- end -}}
{{- end -}}

{{- define "isthmus.subjects" -}}
subjects:
- kind: ServiceAccount
  name: {{ include "isthmus.serviceAccountName" . }}
  namespace: {{ .Release.Namespace }}
{{- end -}}

{{- define "isthmus.controllers" -}}
{{- $all := list -}}
{{- if .Values.offloading.enabled -}}{{- $all = append $all "reflection" -}}{{- end -}}
{{- if .Values.provider.enabled -}}{{- $all = append $all "tenancy" -}}{{- end -}}
{{- if .Values.endpoints.enabled -}}{{- $all = append $all "endpoints" -}}{{- end -}}
{{- if .Values.installations.enabled -}}{{- $all = append $all "installation" -}}{{- end -}}
{{- join "," $all -}}
{{- end -}}

{{- /* Not empty where a controller reads ClusterProfiles. */ -}}
{{- define "isthmus.clusterProfiles" -}}
{{- range list .Values.offloading .Values.installations -}}
{{- if and .enabled .clusterProfiles.enabled -}}enabled{{- end -}}
{{- end -}}
{{- end -}}

{{- /* The access provider file: the controllers of a process share it. */ -}}
{{- define "isthmus.providers" -}}
{{- $providers := list -}}
{{- range list .Values.offloading .Values.installations -}}
{{- if and .enabled .clusterProfiles.enabled -}}{{- $providers = concat $providers .clusterProfiles.providers -}}{{- end -}}
{{- end -}}
{{- dict "providers" ($providers | uniq) | toJson -}}
{{- end -}}

{{- /* The name of the Crossing of an entry: its own, or that of its kind, shortened with a hash where that is too long. */ -}}
{{- define "isthmus.crossingName" -}}
{{- $name := .resource -}}
{{- with .group -}}{{ $name = printf "%s.%s" $name . }}{{- end -}}
{{- if eq (.direction | default "ToRemote") "FromRemote" -}}{{ $name = printf "%s-from-remote" $name }}{{- end -}}
{{- if gt (len $name) 63 -}}{{ $name = printf "%s-%s" ($name | trunc 52 | trimSuffix "." | trimSuffix "-") ($name | sha256sum | trunc 10) }}{{- end -}}
{{- .name | default $name -}}
{{- end -}}

{{- define "isthmus.crossingNames" -}}
{{- range $i, $entry := .Values.offloading.reflection.customResources }}{{ if $i }},{{ end }}{{ include "isthmus.crossingName" $entry }}{{ end -}}
{{- end -}}

{{- /* Groups of Kubernetes itself have no CustomResourceDefinitions: the same list as in internal/boundary/groups.go. */ -}}
{{- define "isthmus.custom" -}}
{{- if contains "." .group -}}
{{- if not (has .group (list "admissionregistration.k8s.io" "apiextensions.k8s.io" "apiregistration.k8s.io" "authentication.k8s.io" "authorization.k8s.io" "certificates.k8s.io" "coordination.k8s.io" "discovery.k8s.io" "events.k8s.io" "flowcontrol.apiserver.k8s.io" "internal.apiserver.k8s.io" "networking.k8s.io" "node.k8s.io" "rbac.authorization.k8s.io" "resource.k8s.io" "scheduling.k8s.io" "storage.k8s.io" "storagemigration.k8s.io")) -}}custom{{- end -}}
{{- end -}}
{{- end -}}

{{- define "isthmus.scheduling" -}}
{{- with .Values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- with .Values.nodeSelector }}
nodeSelector: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.tolerations }}
tolerations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.affinity }}
affinity: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.topologySpreadConstraints }}
topologySpreadConstraints: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{- /* A hook's Job, its ServiceAccount and its rights: what the command needs alone. name, event, args, rules. */ -}}
{{- define "isthmus.hook" -}}
{{- $ := .root -}}
{{- $event := .event -}}
{{- $rules := .rules -}}
{{- $name := printf "%s-%s" (include "isthmus.fullname" $) .name -}}
{{- range $kind := list "ServiceAccount" "ClusterRole" "ClusterRoleBinding" }}
---
apiVersion: {{ if eq $kind "ServiceAccount" }}v1{{ else }}rbac.authorization.k8s.io/v1{{ end }}
kind: {{ $kind }}
metadata:
  name: {{ $name }}
  {{- if eq $kind "ServiceAccount" }}
  namespace: {{ $.Release.Namespace }}
  {{- end }}
  labels: {{- include "isthmus.labels" $ | nindent 4 }}
  annotations:
    helm.sh/hook: {{ $event }}
    helm.sh/hook-weight: "-5"
    helm.sh/hook-delete-policy: before-hook-creation,hook-succeeded
{{- if eq $kind "ClusterRole" }}
rules: {{- toYaml $rules | nindent 0 }}
{{- else if eq $kind "ClusterRoleBinding" }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: ClusterRole
  name: {{ $name }}
subjects:
- kind: ServiceAccount
  name: {{ $name }}
  namespace: {{ $.Release.Namespace }}
{{- end }}
{{- end }}
---
apiVersion: batch/v1
kind: Job
metadata:
  name: {{ $name }}
  namespace: {{ $.Release.Namespace }}
  labels: {{- include "isthmus.labels" $ | nindent 4 }}
  annotations:
    helm.sh/hook: {{ $event }}
    helm.sh/hook-weight: {{ .weight | quote }}
    helm.sh/hook-delete-policy: before-hook-creation,hook-succeeded
    helm.sh/hook-output-log-policy: hook-failed
spec:
  backoffLimit: 0
  template:
    metadata:
      labels:
        {{- include "isthmus.selectorLabels" $ | nindent 8 }}
        app.kubernetes.io/component: {{ .name }}
    spec:
      restartPolicy: Never
      serviceAccountName: {{ $name }}
      securityContext: {{- toYaml $.Values.podSecurityContext | nindent 8 }}
      {{- with $.Values.image.pullSecrets }}
      imagePullSecrets:
      {{- range . }}
      - name: {{ . }}
      {{- end }}
      {{- end }}
      containers:
      - name: isthmus
        image: {{ include "isthmus.image" $ | quote }}
        imagePullPolicy: {{ $.Values.image.pullPolicy }}
        args:
        {{- range .args }}
        - {{ . | quote }}
        {{- end }}
        terminationMessagePolicy: FallbackToLogsOnError
        securityContext: {{- toYaml $.Values.securityContext | nindent 10 }}
        resources: {{- toYaml $.Values.resources | nindent 10 }}
      {{- include "isthmus.scheduling" $ | nindent 6 }}
{{- end -}}
