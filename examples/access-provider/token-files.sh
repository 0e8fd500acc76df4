#!/bin/sh
# An access provider for clusters whose tokens are in files, one for each cluster, that something else keeps fresh.
# TOKEN_DIR is their folder, and CLUSTER the name of the file.
set -eu

case ${CLUSTER:?is not set: the profile has to} in
  *[!a-z0-9-]*)
    echo "CLUSTER is not the name of a cluster: expected lower-case letters, digits and -" >&2
    exit 2
    ;;
esac
file=${TOKEN_DIR:?is not set}/$CLUSTER
if [ ! -r "$file" ]; then
  echo "TOKEN_DIR has no file that can be read of the name in CLUSTER" >&2
  exit 1
fi
token=$(cat "$file")
printf '{"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": {"token": "%s"}}\n' "$token"
