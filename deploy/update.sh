#!/bin/sh
# update.sh [SERVICE …]: replace running containers by those of the images that are built now, without an interruption.
# One service after the other: start as many new containers as there are old ones, then stop the old ones, which
# hand their sessions over. If new ones do not become healthy, they are removed, and the old ones stay. A service
# without a healthy container is replaced in place, and so is an edge with ports of the host (deploy/webrtc.yml), whose
# clients continue at the other edge. Default: recorder worker edge cleanup, and edge-2 if there is one.
set -eu
cd "$(dirname "$0")/.."

# State, health and id of the service's containers, without those of `docker compose run`.
containers() {
    ids=$(docker compose ps --all --quiet "$service")
    state='{{.State.Status}} {{with .State.Health}}{{.Status}}{{end}} {{.Id}}'
    docker inspect --format "{{if eq (index .Config.Labels \"com.docker.compose.oneoff\") \"False\"}}$state{{end}}" $ids
}

not_old() { sed 's/.* //' | grep -vxF "$old" || true; }

# `stop` waits for the `stop_grace_period` of the compose file.
remove() {
    [ -n "$*" ] || return 0
    docker stop "$@" > /dev/null
    docker rm "$@" > /dev/null
}

stage=
clean_up() {
    status=$?
    trap '' INT TERM HUP
    set +e
    if [ "$stage" = starting ]; then
        new=$(containers | not_old)
        echo "update.sh: $service keeps its old containers. The last lines of the new ones, which are removed:" >&2
        for one in $new; do docker logs --tail 20 "$one" >&2; done
        remove $new
    elif [ "$stage" = stopping ]; then
        remove $old
    fi
    exit $status
}
trap clean_up EXIT
trap 'exit 130' INT TERM HUP # dash runs no EXIT trap after a signal

# Its image is new as well. The next `docker compose up` would replace it, and with it all services that depend on it.
docker compose up --detach --no-build --no-deps secrets

for service in ${*:-recorder worker $(docker compose config --services | grep '^edge') cleanup}; do
    running=$(docker compose ps --quiet "$service")
    [ -n "$running" ] || continue
    all=$(containers)
    old=$(echo "$all" | grep '^running ' | grep -v ' unhealthy ' | sed 's/.* //')
    if [ -z "$old" ] || docker inspect --format '{{len .HostConfig.PortBindings}}' $old | grep -qvx 0; then
        docker compose up --detach --no-build --no-deps --wait "$service"
        continue
    fi
    # Of an update that was killed. `up --wait` would fail because of them.
    lost=$(echo "$all" | not_old)
    [ -z "$lost" ] || echo "update.sh: removes containers of $service that are unhealthy or do not run:" $lost
    remove $lost
    both=$((2 * $(echo "$old" | wc -l)))
    stage=starting
    docker compose up --detach --no-build --no-recreate --wait --scale "$service=$both" "$service"
    stage=stopping
    remove $old
    stage=
done
