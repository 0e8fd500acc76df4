// Package endpoints maps the addresses of endpoints between the pod networks of clusters (docs/contract.md, chapter E;
// docs/direct-connections.md has the picture). It is pure: links and endpoints in, endpoints and verdicts out.
//
// An address is native in the pod network of the cluster that the pod runs in. Another cluster sees it as something else,
// where the networks between them are remapped: its ClusterLink says as what. A consumer sends native addresses (the
// origin), and addresses of its own network that lead there too (via); the receiver turns either into what it sees itself.
package endpoints
