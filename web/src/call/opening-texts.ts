import { defineStrings, language } from "../i18n/language.ts";
import { capabilities, understands } from "../shell/capabilities.ts";
import type { CallValues } from "./call-settings.ts";

/** A call in which the model speaks first, to be interrupted, answered or listened to. */
export type OpeningName = "count" | "quiz" | "story";

/** What the model says first is at most 300 characters (`Greeting` in `shared_schemas/config.py`). */
const en = {
  count: {
    prompt:
      "You are a helpful assistant. Give short, correct answers in plain words. You hear and speak at the same time: stop and listen when you are interrupted.",
    greeting:
      "I count to twenty-five. Interrupt me with any question! One, two, three, four, five, six, seven, eight, nine, ten, eleven, twelve, thirteen, fourteen, fifteen, sixteen, seventeen, eighteen, nineteen, twenty, twenty-one, twenty-two, twenty-three, twenty-four, twenty-five.",
  },
  quiz: {
    prompt:
      "You run a quiz. Ask one short question at a time. Say whether the user's answer is right, give the right one if it is not, and ask the next question. Stop and listen when you are interrupted.",
    greeting:
      "Let us play a quiz! You can answer as soon as you know it, even while I speak. First question: What is the capital of Italy?",
  },
  story: {
    prompt: "You are a storyteller. Go on with the story, and follow the listener's wishes.",
    greeting:
      "Once upon a time, a little robot lived in a lighthouse by the sea. Every night it shone its lamp for the ships. But one night the lamp went dark. What should happen next?",
  },
};

const texts = defineStrings(en, {
  count: {
    prompt:
      "你是一位乐于助人的语音助手。请用一到三句自然的口语回答。你可以一边听一边说；被打断时，请停下来先听对方说完。",
    greeting:
      "我从一数到三十，你随时可以打断我，问我任何问题！一，二，三，四，五，六，七，八，九，十，十一，十二，十三，十四，十五，十六，十七，十八，十九，二十，二十一，二十二，二十三，二十四，二十五，二十六，二十七，二十八，二十九，三十。",
  },
  quiz: {
    prompt:
      "你是知识问答的主持人。每次只问一个简短的问题。先说用户答得对不对，答错了就说出正确答案，然后问下一个问题。被打断时，请停下来先听对方说完。",
    greeting:
      "我们来玩知识问答吧！知道答案就可以马上抢答，我说话时也可以。第一题：意大利的首都是哪里？",
  },
  story: {
    prompt:
      "你是讲故事的人，正在讲灯塔里小机器人的故事。请按听众的愿望往下讲，每次讲几句话。被打断时，请停下来先听对方说完。",
    greeting:
      "从前，海边的灯塔里住着一个小机器人，每天晚上都为船只点亮灯光。可是有一天晚上，灯忽然灭了，而一艘船正在靠近。你觉得接下来会发生什么？",
  },
});

/** Settings of a call with an opening, in a language that the model understands. */
export function openingTexts(name: OpeningName): Pick<CallValues, "prompt" | "greeting"> {
  const { prompt, greeting } = (understands(capabilities.value, language.value) ? texts() : en)[
    name
  ];
  return { prompt, greeting };
}
