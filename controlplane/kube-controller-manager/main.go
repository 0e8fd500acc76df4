// Command kube-controller-manager is kube-controller-manager, ended with the process that started it.
package main

import (
	"os"

	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"          // --logging-format=json
	_ "k8s.io/component-base/metrics/prometheus/clientgo" // client metrics
	_ "k8s.io/component-base/metrics/prometheus/version"  // version metric
	"k8s.io/kubernetes/cmd/kube-controller-manager/app"

	"isthmus.dev/controlplane/internal/lifeline"
)

func main() {
	lifeline.Hold()
	os.Exit(cli.Run(app.NewControllerManagerCommand()))
}
