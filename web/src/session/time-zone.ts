/** IANA name of the browser's time zone, such as "Europe/Berlin". */
export function timeZone(): string {
  return Intl.DateTimeFormat().resolvedOptions().timeZone;
}
