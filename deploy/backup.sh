#!/bin/sh
# backup.sh FOLDER [WHERE]: copy the data of the running system to FOLDER/redis.tar and FOLDER/recordings.tar.
# WHERE is the compose stack, or one of:
#   --host REDIS_DATA DATA_DIR           this host, without containers; REDIS_CLI connects to Redis (default: redis-cli)
#   --kubernetes NAMESPACE RELEASE       a release of the chart in deploy/helm
set -eu
umask 077
mkdir -p "$1"
folder=$(cd "$1" && pwd)
recordings=. # in the volume of the recordings
case "${2:-}" in
--host)
    redis_data=$(cd "$3" && pwd) data=$(cd "$4" && pwd) recordings=sessions
    redis() { ${REDIS_CLI:-redis-cli} "$@"; }
    in_redis() { "$@"; }
    in_recorder() { "$@"; }
    ;;
--kubernetes)
    namespace=$3 release=$4
    in_redis() { kubectl --namespace "$namespace" exec "$release-redis-0" -- "$@"; }
    in_recorder() { kubectl --namespace "$namespace" exec "deployment/$release-recorder" -- "$@"; }
    ;;
'')
    cd "$(dirname "$0")/.."
    in_redis() { docker compose exec -T redis "$@"; }
    in_recorder() { docker compose exec -T recorder "$@"; }
    ;;
*)
    echo "backup.sh: $2 is neither --host nor --kubernetes" >&2
    exit 2
    ;;
esac
if [ "${2:-}" != --host ]; then
    redis_data=/data data=/data
    redis() {
        in_redis sh -c 'REDISCLI_AUTH="$(cat /run/antiphon/redis_password)" exec redis-cli "$@"' redis-cli "$@"
    }
fi

# GNU tar has status 1 if a file grew or was deleted meanwhile: both are written all the time. The commands that reach
# it have the same status for their own errors.
archive() {
    "in_$1" sh -c 'tar -C "$1" --exclude=./lost+found -cf - "$2" || [ $? -eq 1 ]' tar "$2" "$3" > "$folder/$4.part"
    mv "$folder/$4.part" "$folder/$4"
}

if redis info persistence | grep -q aof_enabled:0; then
    echo "backup.sh: Redis has no append-only file (appendonly yes), so its data cannot be copied" >&2
    exit 1
fi
# Redis appends to its file. A rewrite would replace the file while it is copied.
percentage=$(redis config get auto-aof-rewrite-percentage | tail -n 1)
trap 'redis config set auto-aof-rewrite-percentage "$percentage" > /dev/null' EXIT
trap 'exit 130' INT TERM HUP # dash runs no EXIT trap after a signal
redis config set auto-aof-rewrite-percentage 0 > /dev/null
while redis info persistence | grep -Eq 'aof_rewrite_(in_progress|scheduled):1'; do sleep 1; done

# Redis first: a recorder writes again what it may have written already, but cannot write what Redis no longer has.
archive redis "$redis_data" . redis.tar
archive recorder "$data" "$recordings" recordings.tar
