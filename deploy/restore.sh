#!/bin/sh
# restore.sh FOLDER [--kubernetes NAMESPACE RELEASE]: stop the system, REPLACE its data with that of `backup.sh FOLDER`,
# and start it. Without further words: the compose stack. docs/backup.md has the commands for hosts without containers.
set -eu
folder=$(cd "$1" && pwd)
for file in redis.tar recordings.tar; do
    test -s "$folder/$file"
    tar -tf "$folder/$file" > /dev/null || {
        echo "restore.sh: $folder/$file is damaged, so nothing was stopped or replaced" >&2
        exit 1
    }
done

in_kubernetes() {
    redis=statefulset/$2-redis
    kubectl() { command kubectl --namespace "$namespace" "$@"; }
    namespace=$1
    image=$(kubectl get "$redis" --output 'jsonpath={.spec.template.spec.containers[0].image}')
    claim=$(kubectl get "deployment/$2-recorder" --output \
        'jsonpath={.spec.template.spec.volumes[?(@.name=="recordings")].persistentVolumeClaim.claimName}')
    scale="kubectl --namespace $namespace scale"
    start="$scale --replicas=1 $redis"
    for service in recorder cleanup worker edge; do
        count=$(kubectl get "deployment/$2-$service" --output 'jsonpath={.spec.replicas}')
        # The chart has one, and a restore stops it first.
        if [ "$service" = cleanup ] && [ "$count" = 0 ]; then
            echo "restore.sh: deployment/$2-cleanup has 0 replicas, as after a restore that stopped before its end, so" \
                "nothing was stopped or replaced. Set the replicas of recorder, cleanup, worker and edge first:" \
                "$scale --replicas=… deployment/$2-…" >&2
            exit 1
        fi
        start="$start && $scale --replicas=$count deployment/$2-$service"
    done
    echo "if this stops before its end, start the pods again: $start"
    for service in cleanup recorder worker edge; do
        kubectl scale --replicas=0 "deployment/$2-$service"
    done
    kubectl scale --replicas=0 "$redis"
    kubectl wait --for=delete pod --selector "app.kubernetes.io/instance=$2" --timeout=300s
    pod "$2" "$image" "$claim" | kubectl apply --filename -
    kubectl wait --for=condition=Ready "pod/$2-restore" --timeout=300s
    kubectl exec "$2-restore" -- find /redis /data -mindepth 1 -not -path '*/lost+found*' -delete
    kubectl exec --stdin "$2-restore" -- tar -C /redis -xf - < "$folder/redis.tar"
    kubectl exec --stdin "$2-restore" -- tar -C /data -xf - < "$folder/recordings.tar"
    kubectl delete pod "$2-restore"
    unset -f kubectl # the commands have the namespace
    eval "$start"
}

# The user of all services and of Redis unpacks, so that the files are theirs.
pod() {
    cat << YAML
apiVersion: v1
kind: Pod
metadata: {name: $1-restore}
spec:
  restartPolicy: Never
  automountServiceAccountToken: false
  securityContext:
    runAsNonRoot: true
    runAsUser: 10001
    runAsGroup: 10001
    fsGroup: 10001
    seccompProfile: {type: RuntimeDefault}
  containers:
    - name: restore
      image: $2
      command: [sleep, "86400"]
      securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}
      volumeMounts:
        - {name: redis, mountPath: /redis}
        - {name: recordings, mountPath: /data}
  volumes:
    - {name: redis, persistentVolumeClaim: {claimName: redis-$1-redis-0}}
    - {name: recordings, persistentVolumeClaim: {claimName: $3}}
YAML
}

in_compose() {
    cd "$(dirname "$0")/.."
    services=$(docker compose config --services)
    running=$(docker compose ps --services)
    others=$(echo "$running" | grep -vxF "$services" || true)
    # `stop` would leave them: a replica of Redis would become the master, and replace the restored data by its own.
    if [ -n "$others" ]; then
        echo "restore.sh: nothing was stopped or replaced, because COMPOSE_PROFILES or COMPOSE_FILE in .env lacks" \
            "services that run:" $others >&2
        exit 1
    fi
    docker compose stop
    # Docker gives an empty volume to the owner of the folder in the image: for that of Redis, only root can change this.
    put secrets /redis redis.tar
    put recorder /data recordings.tar
    docker compose up --detach --no-recreate --wait
}

# put SERVICE PATH FILE: the service's user may write the volume at this path.
put() {
    docker compose run --rm --no-deps -T --entrypoint sh "$1" \
        -c "find $2 -mindepth 1 -delete && exec tar --numeric-owner -C $2 -xpf -" < "$folder/$3"
}

case "${2:-}" in
--kubernetes) in_kubernetes "$3" "$4" ;;
'') in_compose ;;
*)
    echo "restore.sh: $2 is not --kubernetes" >&2
    exit 2
    ;;
esac
