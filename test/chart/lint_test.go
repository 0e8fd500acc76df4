package chart

import (
	"testing"

	"helm.sh/helm/v4/pkg/action"
)

// helm lint has nothing to say, not even a warning.
func TestChartLints(t *testing.T) {
	lint := action.NewLint()
	lint.Strict, lint.KubeVersion = true, kubeVersion()
	result := lint.Run([]string{chartPath}, values(t, least))
	for _, m := range result.Messages {
		t.Log(m)
	}
	for _, err := range result.Errors {
		t.Error(err)
	}
}
