#!/bin/sh
# update.sh [SERVICE …]: replace running containers by those of the images that are built now, without an interruption.
# One service after the other: start as many new containers as there are old ones, then stop the old ones, which
# hand their sessions over. An edge with ports of the host (deploy/webrtc.yml) is replaced in place, and its clients
# continue at the other edge. Default: recorder worker edge cleanup, and edge-2 if there is one.
set -eu
cd "$(dirname "$0")/.."

# Its image is new as well. The next `docker compose up` would replace it, and with it all services that depend on it.
docker compose up --detach --no-build --no-deps secrets

for service in ${*:-recorder worker $(docker compose config --services | grep '^edge') cleanup}; do
    old=$(docker compose ps --quiet "$service")
    [ -n "$old" ] || continue
    if docker inspect --format '{{len .HostConfig.PortBindings}}' $old | grep -qvx 0; then
        docker compose up --detach --no-build --no-deps --wait "$service"
        continue
    fi
    both=$((2 * $(echo "$old" | wc -l)))
    docker compose up --detach --no-build --no-recreate --wait --scale "$service=$both" "$service"
    # `stop` waits for the `stop_grace_period` of the compose file.
    docker stop $old > /dev/null
    docker rm $old > /dev/null
done
