// Command isthmus carries Kubernetes objects between clusters.
package main

import "isthmus.dev/isthmus/internal/cli"

func main() { cli.Main() }
