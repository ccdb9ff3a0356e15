#!/bin/sh
# backup.sh FOLDER: copy the data of the running stack to FOLDER/redis.tar and FOLDER/recordings.tar.
set -eu
umask 077
mkdir -p "$1"
folder=$(cd "$1" && pwd)
cd "$(dirname "$0")/.."

redis() {
    docker compose exec -T redis \
        sh -c 'REDISCLI_AUTH="$(cat /run/antiphon/redis_password)" exec redis-cli "$@"' redis-cli "$@"
}

# GNU tar has status 1 if a file grew or was deleted meanwhile: both are written all the time.
archive() {
    docker compose exec -T "$1" tar -C /data -cf - . > "$folder/$2.part" || [ $? -eq 1 ]
    mv "$folder/$2.part" "$folder/$2"
}

# Redis appends to its file. A rewrite would replace the file while it is copied.
trap 'redis config set auto-aof-rewrite-percentage 100 > /dev/null' EXIT
redis config set auto-aof-rewrite-percentage 0 > /dev/null
while redis info persistence | grep -Eq 'aof_rewrite_(in_progress|scheduled):1'; do sleep 1; done

# Redis first: a recorder writes again what it may have written already, but cannot write what Redis no longer has.
archive redis redis.tar
archive recorder recordings.tar
