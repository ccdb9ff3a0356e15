#!/bin/sh
# backup.sh FOLDER [WHERE]: copy the data of the running system to FOLDER/redis.tar and FOLDER/recordings.tar.
# WHERE is the compose stack, or one of:
#   --host REDIS_DATA DATA_DIR           this host, without containers; REDIS_CLI connects to Redis (default: redis-cli)
#   --kubernetes NAMESPACE RELEASE       a release of the chart in deploy/helm
set -eu
umask 077
# Another backup would end the protection of this one. macOS has no flock.
if command -v flock > /dev/null; then
    exec 9< "$0"
    flock -n 9 || { echo "backup.sh: waits for the end of another backup" >&2 && flock 9; }
fi
mkdir -p "$1"
folder=$(cd "$1" && pwd)
recordings=. # in the volume of the recordings
case "${2:-}" in
--host)
    redis_data=$(cd "$3" && pwd) data=$(cd "$4" && pwd) recordings=sessions
    redis() { ${REDIS_CLI:-redis-cli} -e "$@"; }
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
        in_redis sh -c 'REDISCLI_AUTH="$(cat /run/antiphon/redis_password)" exec redis-cli -e "$@"' redis-cli "$@"
    }
fi

# GNU tar has status 1 if a file grew or was deleted meanwhile: both are written all the time. The commands that reach
# it have the same status for their own errors.
archive() {
    "in_$1" sh -c 'tar -C "$1" --exclude=./lost+found -cf - "$2" || [ $? -eq 1 ]' tar "$2" "$3" > "$folder/$4.part"
    mv "$folder/$4.part" "$folder/$4"
}

persistence=$(redis info persistence)
if ! echo "$persistence" | grep -q aof_enabled:1; then
    echo "backup.sh: Redis has no append-only file (appendonly yes), so its data cannot be copied" >&2
    exit 1
fi
# Redis appends to its file. A rewrite would replace the file while it is copied.
percentage=$(redis config get auto-aof-rewrite-percentage)
percentage=$(echo "$percentage" | tail -n 1)
case "$percentage" in
'' | *[!0-9]*)
    echo "backup.sh: Redis has no setting auto-aof-rewrite-percentage, so its file could change while it is copied" >&2
    exit 1
    ;;
0)
    echo "backup.sh: a backup that was killed left auto-aof-rewrite-percentage at 0; this one sets it to 100" >&2
    percentage=100
    ;;
esac
trap 'redis config set auto-aof-rewrite-percentage "$percentage" > /dev/null' EXIT
trap 'exit 130' INT TERM HUP # dash runs no EXIT trap after a signal
redis config set auto-aof-rewrite-percentage 0 > /dev/null
while :; do
    persistence=$(redis info persistence)
    echo "$persistence" | grep -Eq 'aof_rewrite_(in_progress|scheduled):1' || break
    sleep 1
done

# Redis first: a recorder writes again what it may have written already, but cannot write what Redis no longer has.
archive redis "$redis_data" . redis.tar
archive recorder "$data" "$recordings" recordings.tar
