/**
 * Whether the key belongs to the composition of a word, for example in Chinese input methods: Enter and Escape
 * end it there. Safari ends it before the event of the key, and marks that one only with the code 229.
 */
export function isComposing(event: KeyboardEvent): boolean {
  return event.isComposing || event.keyCode === 229;
}
