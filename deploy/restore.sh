#!/bin/sh
# restore.sh FOLDER: stop the stack, REPLACE its data with that of `backup.sh FOLDER`, and start it.
set -eu
folder=$(cd "$1" && pwd)
cd "$(dirname "$0")/.."
test -s "$folder/redis.tar" && test -s "$folder/recordings.tar"

# put SERVICE PATH FILE: the service's user may write the volume at this path.
put() {
    docker compose run --rm --no-deps -T --entrypoint sh "$1" \
        -c "find $2 -mindepth 1 -delete && exec tar --numeric-owner -C $2 -xpf -" < "$folder/$3"
}

docker compose stop
# Docker gives an empty volume to the owner of the folder in the image: for that of Redis, only root can change this.
put secrets /redis redis.tar
put recorder /data recordings.tar
docker compose up --detach --no-recreate --wait
