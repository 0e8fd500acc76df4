// Command kubectl is kubectl, of the same version as the API server beside it.
package main

import (
	_ "k8s.io/client-go/plugin/pkg/client/auth" // kubeconfigs with auth providers
	"k8s.io/component-base/cli"
	"k8s.io/kubectl/pkg/cmd"
	"k8s.io/kubectl/pkg/cmd/util"
)

func main() {
	if err := cli.RunNoErrOutput(cmd.NewDefaultKubectlCommand()); err != nil {
		util.CheckErr(err)
	}
}
