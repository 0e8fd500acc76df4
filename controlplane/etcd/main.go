// Command etcd is etcd, ended with the process that started it.
package main

import (
	"os"

	"go.etcd.io/etcd/server/v3/etcdmain"

	"isthmus.dev/controlplane/internal/lifeline"
)

func main() {
	lifeline.Hold()
	etcdmain.Main(os.Args)
}
